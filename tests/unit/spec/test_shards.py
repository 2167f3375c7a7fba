"""Shards in a spec: what they cannot be, and a shard as a pipeline of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.app.inspect.reported import status_file
from penstock.core.errors import InvalidError
from penstock.spec.load import loads, read
from penstock.spec.model import Pipeline, require_shard
from penstock.spec.problems import SpecError
from penstock.spec.rules import rules_hash, rules_text, with_rules

Changed = Callable[..., str]
BASE = Path("/srv")


def sharded(spec: Changed, *changes: tuple[str, str], count: int = 4) -> Pipeline:
    return loads(spec(("kafka:", f"shards: {count}\nkafka:"), *changes), base=BASE)


@pytest.mark.parametrize(
    ("rule", "setting"),
    [
        ("mode: upsert\n    keys: [id]\n    records: { key_format: json }", "keys"),
        ("route: { kind: lower(kind) }", "route"),
    ],
)
def test_co_g3_keyed_tables_and_routes_have_no_shards(
    spec: Changed, rule: str, setting: str
) -> None:
    into = "into: lake.bronze.of_{kind}" if setting == "route" else "into: lake.bronze.orders"
    changed = ("into: lake.bronze.orders", f"{into}\n    {rule}")
    with pytest.raises(SpecError) as caught:
        sharded(spec, changed)

    found = [each for each in caught.value.problems if each.code == "P157"]
    assert [("tables", 0, setting)] == [each.path for each in found]


def test_there_are_64_shards_at_most(spec: Changed) -> None:
    assert 64 == sharded(spec, count=64).shards
    with pytest.raises(SpecError):
        sharded(spec, count=65)


def test_a_shard_is_a_pipeline_with_a_store_and_a_status_file_of_its_own(spec: Changed) -> None:
    shard = sharded(spec).of_shard(2)

    assert shard.name.endswith("+2")
    assert "{name}" in shard.pending.store
    assert f"{shard.name}." in status_file(shard).name


def test_a_shard_has_to_be_named_and_to_be_there(spec: Changed) -> None:
    pipeline, whole = sharded(spec), loads(spec(), base=BASE)
    for wrong in (
        lambda: require_shard(pipeline),
        lambda: pipeline.of_shard(4),
        lambda: pipeline.of_shard(1).of_shard(1),
        lambda: whole.of_shard(0),
    ):
        with pytest.raises(InvalidError) as caught:
            wrong()
        assert "P528" == caught.value.code
    require_shard(pipeline.of_shard(3))
    require_shard(whole)


def test_the_number_of_shards_is_among_the_rules(spec: Changed) -> None:
    four, whole = sharded(spec), loads(spec(), base=BASE)

    assert rules_hash(four) != rules_hash(sharded(spec, count=3))
    assert rules_hash(four) == rules_hash(four.of_shard(2))
    assert "shards" not in rules_text(whole)
    assert 4 == with_rules(whole, rules_text(four)).shards


@pytest.mark.parametrize(("every", "hints"), [("1s", ["3s"]), ("3s", []), ("30s", [])])
def test_shards_that_commit_too_often_are_warned(
    spec: Changed, every: str, hints: list[str]
) -> None:
    text = spec(("kafka:", f"shards: 4\ncommit: {{ every: {every} }}\nkafka:"))
    warnings = read(text, base=BASE, name="s.yaml").warnings

    assert [("P530", True)] * len(hints) == [
        (each.code, hints[0] in each.hint) for each in warnings if each.code == "P530"
    ]
