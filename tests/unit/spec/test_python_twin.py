"""The Python twin is the same model: as strict as YAML, and YAML is its serialisation."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.unit.spec.written import to_yaml

from penstock.spec.language.quantities import share, share_text
from penstock.spec.load import loads
from penstock.spec.model import Pipeline
from penstock.spec.paths import located
from penstock.spec.problems import SpecError
from penstock.spec.rules import rules_text, with_rules
from penstock.spec.settings.catalogs import DeltaCatalog
from penstock.spec.settings.commit import CommitSettings
from penstock.spec.settings.schema_policy import SchemaPolicy
from penstock.spec.settings.sections import Kafka, QuarantineSettings, TopicPattern
from penstock.spec.settings.table import Table

BASE = Path("/srv/shop")


def twin() -> Pipeline:
    return Pipeline(
        name="shop",
        kafka=Kafka(brokers="localhost:9092", topics=["shop.orders", TopicPattern(pattern="x.+")]),
        catalogs={"delta": DeltaCatalog(type="delta", root="./delta")},
        tables=[
            Table(
                from_="shop.orders",
                into="delta.bronze.orders",
                schema=SchemaPolicy(create=True),
            )
        ],
        commit=CommitSettings(every=timedelta(milliseconds=1500)),
        quarantine=QuarantineSettings(into="delta.ops.quarantine"),
    )


def test_a_pipeline_is_built_in_python() -> None:
    pipeline = twin()
    assert 1.5 == pipeline.commit.every_seconds
    assert pipeline == pickle.loads(pickle.dumps(pipeline))
    assert located(pipeline, BASE) == loads(to_yaml(pipeline), base=BASE)


def test_a_wrong_block_reports_all_its_problems_when_it_is_built() -> None:
    with pytest.raises(SpecError) as caught:
        Table(from_="(", mode="scd2", frm="x")
    assert {"P113", "P105", "P111", "P104"} == {each.code for each in caught.value.problems}
    assert "this Table has 4 problems" == caught.value.message


def test_contradictions_between_blocks_are_found_when_the_pipeline_is_built(
    pipeline: Callable[..., Pipeline],
) -> None:
    with pytest.raises(SpecError) as caught:
        pipeline(tables=[{"from": "a", "into": "nowhere.b.c"}, {"from": "b", "into": "lake.b.{x}"}])
    assert ["P117", "P114"] == [each.code for each in caught.value.problems]
    assert "pipeline 'shop' has 2 problems" == caught.value.message


def test_a_pipeline_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        twin().name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("value", [30, 30.0, True, None, "30", timedelta(0)])
def test_a_number_without_a_unit_is_no_duration(value: object) -> None:
    with pytest.raises(SpecError, match="a duration"):
        CommitSettings(every=value)


def test_a_start_time_is_kept_in_utc() -> None:
    kafka = Kafka(brokers="h", topics=["a"], start="2026-11-01T02:00:00+02:00")
    assert datetime(2026, 11, 1, tzinfo=UTC) == kafka.start


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp", "Cn", "Co"]), min_size=1, max_size=12
).filter(lambda text: "\ufeff" not in text)  # fmt: skip
DURATIONS = st.integers(1, 10**9).map(lambda number: f"{number}ms")
SIZES = st.integers(1, 10**12).map(lambda number: f"{number}B")
TOPICS = st.sampled_from(["orders", "shop.Orders", "a-b", "no", "12", "1e3", "null"])
STARTS = st.one_of(
    st.sampled_from(["earliest", "latest"]),
    st.datetimes(timezones=st.just(UTC)),
    st.dictionaries(TOPICS, st.dictionaries(st.integers(0, 99), st.integers(0, 2**60), min_size=1)),
)
TABLES = st.fixed_dictionaries(
    {"from": TOPICS, "into": st.tuples(NAMES, NAMES).map(lambda parts: ".".join(["lake", *parts]))},
    optional={
        "partition_by": st.sampled_from(
            [[], ["day(ts)"], ["bucket(16, a)", "b c".replace(" ", "-")]]
        ),
        "schema": st.fixed_dictionaries(
            {},
            optional={
                "create": st.booleans(),
                "columns": st.sampled_from(["drop_value", "quarantine"]),
                "hints": st.dictionaries(
                    TEXTS, st.sampled_from(["long", "list<date>", "decimal(9,2)"]), max_size=2
                ),
                "assume_zone": st.sampled_from([None, "Europe/Berlin", "UTC"]),
            },
        ),
        "source_columns": st.lists(
            st.sampled_from(["topic", "offset", "key", "headers"]), unique=True
        ),
        "tombstones": st.sampled_from(["skip", "quarantine"]),
        "properties": st.dictionaries(
            TEXTS.filter(lambda t: not t.startswith("penstock")), TEXTS, max_size=2
        ),
    },
)
WORDS = st.dictionaries(
    TEXTS,
    st.sampled_from(["insert", "update", "read", "delete", "truncate"]),
    min_size=1,
    max_size=3,
)
CHANGES = st.one_of(
    st.fixed_dictionaries({"mode": st.just("upsert")}),
    st.fixed_dictionaries(
        {"mode": st.just("cdc"), "operation": st.fixed_dictionaries({"field": NAMES, "map": WORDS})}
    ),
    st.fixed_dictionaries(
        {
            "mode": st.just("cdc"),
            "operation": st.fixed_dictionaries({"header": TEXTS, "map": WORDS}),
        }
    ),
    st.fixed_dictionaries(
        {
            "mode": st.just("cdc"),
            "records": st.fixed_dictionaries(
                {"envelope": st.sampled_from(["debezium", "dms", "maxwell", "canal"])}
            ),
        }
    ),
)
KEYED = st.fixed_dictionaries(
    {
        "from": TOPICS,
        "into": st.tuples(NAMES, NAMES).map(lambda parts: ".".join(["lake", *parts])),
        "keys": st.lists(NAMES.filter(lambda n: not n.startswith("_")), min_size=1, unique=True),
        "tombstones": st.sampled_from(["skip", "quarantine"]),
    },
    optional={
        "deletes": st.sampled_from(["hard", "ignore"]),
        "truncates": st.sampled_from(["stop", "ignore"]),
        "across_partitions": st.sampled_from(["warn", "stop"]),
    },
)
RULES = st.one_of(TABLES, st.tuples(KEYED, CHANGES).map(lambda parts: parts[0] | parts[1]))
PIPELINES = st.fixed_dictionaries(
    {
        "name": NAMES,
        "kafka": st.fixed_dictionaries(
            {"brokers": st.just("h:1,[::1]:2"), "topics": st.just([{"pattern": ".*"}]), "start": STARTS},
            optional={"identity": st.sampled_from(["topic_id", "name"])},
        ),
        "catalogs": st.fixed_dictionaries(
            {
                "lake": st.dictionaries(NAMES, st.one_of(TEXTS, st.just("${env:X}")), max_size=2).map(
                    lambda extra: {**extra, "type": "sql", "uri": "sqlite:////c.db", "warehouse": "s3://b"}
                )
            }
        ),
        "tables": st.lists(
            RULES, min_size=1, max_size=3, unique_by=(lambda t: t["from"], lambda t: t["into"])
        ),
        "quarantine": st.fixed_dictionaries(
            {"into": st.just("lake.ops.penstock_quarantine")},
            optional={"stop_above": st.integers(0, 100_000).map(lambda n: share_text(share(f"{n / 1000:.3f}%")))},
        ),
        "spark": st.fixed_dictionaries({"conf": st.dictionaries(TEXTS, TEXTS, max_size=2)}),
    },
    optional={
        "commit": st.fixed_dictionaries({}, optional={"every": DURATIONS, "or_bytes": SIZES, "retain": st.integers(1, 200)}),
        "limits": st.fixed_dictionaries({}, optional={"record_bytes": SIZES, "depth": st.integers(1, 128)}),
        "target_file_bytes": st.integers(10**8, 10**12).map(lambda number: f"{number}B"),
    },
)  # fmt: skip


@settings(max_examples=120)
@given(PIPELINES)
def test_every_pipeline_is_written_as_yaml_that_reads_back_as_the_same(
    blocks: dict[str, Any],
) -> None:
    pipeline = Pipeline(**blocks)
    assert located(pipeline, BASE) == loads(to_yaml(pipeline), base=BASE)


@settings(max_examples=120)
@given(PIPELINES, PIPELINES)
def test_every_pipelines_rules_are_kept_and_put_back_into_other_surroundings(
    blocks: dict[str, Any], others: dict[str, Any]
) -> None:
    text = rules_text(Pipeline(**blocks))

    assert text == rules_text(with_rules(Pipeline(**others), text))
