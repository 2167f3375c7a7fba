from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.app.assembly.assembly import settings_of, targets_of
from penstock.core.errors import InvalidError
from penstock.spec.model import Pipeline
from penstock.spec.paths import located
from penstock.spec.rules import rules_hash, rules_text, with_rules

Build = Callable[..., Pipeline]
RULE = {"from": "shop.orders", "into": "lake.bronze.orders"}


@pytest.mark.parametrize(
    "surroundings",
    [
        {"commit": {"every": "1s", "retain": 3}},
        {"spark": {"master": "local[2]", "conf": {"a": "b"}}},
        {"pending": {"max_epochs": 2}},
        {"limits": {"tables": 5, "open_writers": 2, "new_columns_per_hour": 1}},
        {"target_file_bytes": "1GB"},
        {"quarantine": {"into": "lake.ops.quarantine", "stop_above": "5%"}},
        {"tables": [{**RULE, "properties": {"a": "b"}}]},
        {"tables": [{**RULE, "write": {"distribution": "late"}}]},
        {"kafka": {"brokers": "other:1", "topics": [{"pattern": ".*"}], "start": "latest"}},
        {
            "catalogs": {
                "lake": {
                    "type": "sql",
                    "uri": "postgresql://h/x",
                    "warehouse": "s3://b",
                    "token": "t",
                }
            }
        },
    ],
)
def test_surroundings_are_no_rules(pipeline: Build, surroundings: dict[str, object]) -> None:
    assert rules_hash(pipeline()) == rules_hash(pipeline(**surroundings))


FEED = {"properties": {"delta.enableChangeDataFeed": "true"}}


@pytest.mark.parametrize(
    ("into", "given", "some"),
    [
        ("lake.bronze.orders", {}, "_file"),
        ("delta.bronze.orders", {}, None),
        ("delta.bronze.orders", FEED, "_change_type"),
    ],
)
def test_a_table_s_format_reports_the_names_that_records_ask_no_column_for(
    pipeline: Build, into: str, given: dict[str, object], some: str | None
) -> None:
    found = targets_of(pipeline(tables=[{**RULE, "into": into, **given}]), ["shop.orders"])

    reserved = found["shop.orders"][0].options.reserved
    assert some in reserved if some else () == reserved


@pytest.mark.parametrize("schema", [{}, {"defaults": "absent_or_null"}])
def test_defaults_are_filled_in_where_the_rule_says_when(
    pipeline: Build, schema: dict[str, str]
) -> None:
    found = targets_of(pipeline(tables=[{**RULE, "schema": schema}]), ["shop.orders"])

    assert bool(schema) == found["shop.orders"][0].options.fills_defaults


@pytest.mark.parametrize(
    "rules",
    [
        {"kafka": {"brokers": "localhost:9092", "topics": ["shop.orders"]}},
        {"tables": [{**RULE, "from": "shop\\.orders"}]},
        {"tables": [{**RULE, "into": "lake.bronze.other"}]},
        {"tables": [{**RULE, "continue": True}]},
        {"tables": [{**RULE, "partition_by": ["a"]}]},
        {"tables": [{**RULE, "schema": {"types": "drop_value"}}]},
        {"tables": [{**RULE, "schema": {"hints": {"a": "long"}}}]},
        {"tables": [{**RULE, "schema": {"assume_zone": "UTC"}}]},
        {"tables": [{**RULE, "schema": {"defaults": "absent_or_null"}}]},
        {"tables": [{**RULE, "source_columns": []}]},
        {"tables": [{**RULE, "tombstones": "skip"}]},
        {"quarantine": {"into": "lake.ops.other"}},
        {"limits": {"record_bytes": "1MB"}},
        {"records": {"format": "text"}},
        {"tables": [{**RULE, "records": {"envelope": "debezium"}, "change_columns": ["source"]}]},
        {"limits": {"depth": 3}},
        {"limits": {"columns": 3}},
    ],
)
def test_what_decides_a_records_outcome_is_a_rule(
    pipeline: Build, rules: dict[str, object]
) -> None:
    assert rules_hash(pipeline()) != rules_hash(pipeline(**rules))
    changed = pipeline(**rules)
    assert pipeline() == with_rules(changed, rules_text(pipeline()))


def test_the_text_is_canonical_json(pipeline: Build) -> None:
    text = rules_text(pipeline())
    assert text == json.dumps(
        json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    assert 16 == len(rules_hash(pipeline()))
    assert rules_text(pipeline()) == rules_text(located(pipeline(), Path("/srv")))


def test_the_hash_of_known_rules_stays_over_releases(pipeline: Build) -> None:
    """A change here makes every running pipeline bring its tables level first: is it meant?"""
    assert "4291ceb30541cebc" == rules_hash(pipeline())


def test_earlier_rules_are_put_into_the_surroundings_of_today(pipeline: Build) -> None:
    earlier = pipeline(
        tables=[{**RULE, "tombstones": "skip", "properties": {"a": "b"}}], commit={"every": "1s"}
    )
    today = pipeline(tables=[{**RULE, "properties": {"a": "c"}}], commit={"every": "9s"})
    found = with_rules(today, rules_text(earlier))
    assert ("skip", {"a": "c"}, 9.0) == (
        found.tables[0].tombstones,
        found.tables[0].properties,
        found.commit.every_seconds,
    )
    assert rules_text(earlier) == rules_text(found)


def test_a_registry_may_be_moved_without_another_rule(pipeline: Build) -> None:
    at = [
        pipeline(records={"format": "avro", "registry": {"url": url, "token": "${env:TOKEN}"}})
        for url in ("https://here:8081", "https://there:8081")
    ]
    assert rules_text(at[0]) == rules_text(at[1])
    assert "TOKEN" not in rules_text(at[0])
    assert at[1] == with_rules(at[1], rules_text(at[0]))


def test_earlier_rules_need_their_catalogs(pipeline: Build) -> None:
    earlier = rules_text(pipeline(tables=[{**RULE, "into": "delta.orders"}]))
    today = pipeline(catalogs={"lake": {"type": "sql", "uri": "sqlite:////c", "warehouse": "/w"}})
    with pytest.raises(InvalidError, match="no catalog 'delta'") as caught:
        with_rules(today, earlier)
    assert "P117" == caught.value.code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "P131"),
        ("[]", "P131"),
        ("{}", "P131"),
        ('{"v":1}', "P131"),
        ('{"v":1,"tables":5}', "P131"),
        ('{"v":1,"tables":[{"from":5}]}', "P131"),
        ("[" * 100_000, "P131"),
        ('{"v":2}', "P130"),
    ],
    ids=range(8),
)
def test_what_is_no_text_of_rules_is_refused(pipeline: Build, text: str, code: str) -> None:
    with pytest.raises(InvalidError) as caught:
        with_rules(pipeline(), text)
    assert code == caught.value.code


def test_rules_of_a_version_that_took_deeper_records_are_read_within_todays_bound(
    pipeline: Build,
) -> None:
    kept = json.loads(rules_text(pipeline()))
    kept["limits"]["depth"] = 1000

    assert 128 == with_rules(pipeline(), json.dumps(kept)).limits.depth


def test_earlier_rules_route_the_topics_they_read_and_no_others(pipeline: Build) -> None:
    tables = [RULE, {**RULE, "from": "shop\\..+", "into": "lake.bronze.others"}]
    topics = ["shop.orders", {"pattern": "shop\\.re.+"}]
    earlier = pipeline(kafka={"brokers": "localhost:9092", "topics": topics}, tables=tables)
    routes = settings_of(pipeline()).former_routes(rules_text(earlier))
    found = routes(["shop.orders", "shop.returns", "shop.gone"])

    assert {
        "shop.orders": ["lake.bronze.orders"],
        "shop.returns": ["lake.bronze.others"],
    } == {topic: [each.location.table for each in targets] for topic, targets in found.items()}
