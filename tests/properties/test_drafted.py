"""Whatever records a topic holds, the rule that is drafted for them lands each one.

The law: a sample of JSON objects, of any values, in whatever order they come and whichever of them
the table is created for, is landed whole by the drafted rule, by tables of both formats, and the
hints read back from the spec's text.
"""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import messy

from penstock.app.init.draft import text_of
from penstock.app.init.rule import WITHOUT_COLUMNS, Setting, drafted
from penstock.app.init.topics import SampledTopics, Topic
from penstock.connectors.delta.schema.types import delta_json
from penstock.core.offsets import TopicPartition
from penstock.core.schema_join import known, with_hints
from penstock.core.type_text import parse_type
from penstock.landing.tables.schema_evolution import with_declared
from penstock.rows.convert.batch import convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.schema.evolution import requested_schema
from penstock.rows.schema.inference import infer, table_schema
from penstock.rows.schema.survey import survey

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
TIMES = st.datetimes().map(lambda each: each.isoformat())
TEXTS = st.one_of(
    WORDS,
    TIMES,
    TIMES.map(lambda text: f"{text}Z"),
    st.dates().map(str),
    st.uuids().map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    st.integers().map(str),
    st.sampled_from(["", "true", "false", "n/a", "1.10", "007", "24:00", "2026-02-30"]),
).map(json.dumps)
NUMBERS = st.one_of(
    st.integers(-5, 5).map(str),
    st.integers(-(10**45), 10**45).map(str),
    st.integers(1_700_000_000, 1_800_000_000).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.tuples(st.integers(-(10**20), 10**20), st.integers(0, 10**20)).map(
        lambda pair: f"{pair[0]}.{pair[1]}"
    ),
    st.sampled_from(["1e400", "-0", "2.0", "1e22", "1E5", "9007199254740993", "1e-400"]),
)
SCALARS = st.one_of(TEXTS, NUMBERS, st.sampled_from(["null", "null", "true", "false"]))
NAMES = st.one_of(
    st.sampled_from(
        [
            "a",
            "A",
            "b",
            "price",
            "created_at",
            "a.b",
            "x y",
            "ü",
            "n[]",
            "t:u",
            "null",
            "_file",
            "\u0131",
        ]
    ),
    st.uuids().map(str),
    st.dates().map(str),
)


def one(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return values.map(lambda value: written({name: value}))


def written(members: dict[str, str]) -> str:
    return f"{{{','.join(f'{json.dumps(name)}:{value}' for name, value in members.items())}}}"


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.dictionaries(NAMES, values, max_size=5).map(written)


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=3).map(lambda items: f"[{','.join(items)}]")


VALUES = st.recursive(SCALARS, lambda inner: objects(inner) | arrays(inner), max_leaves=6)
WHOLE = st.integers(-(10**6), 10**6).map(str)
FAMILIES: tuple[st.SearchStrategy[str], ...] = (
    WHOLE | st.floats(-1e6, 1e6).map(repr),
    WHOLE | WHOLE.map(json.dumps),
    WHOLE | st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(["true", "false", '"true"', '"false"']),
    st.dates().map(lambda day: json.dumps(str(day))),
    TIMES.map(lambda time: json.dumps(f"{time}Z")),
    st.decimals(-(10**9), 10**9, places=2).map(lambda amount: json.dumps(str(amount))),
    st.decimals(-(10**9), 10**9, places=12).map(lambda number: f"{number:f}"),
    TEXTS,
    VALUES,
)
"""Values that a field has in one topic: of a kind, mostly."""


@st.composite
def topics(draw: st.DrawFn) -> list[str]:
    """Draw the records of one topic: fields that are there or not, each of one family."""
    families = st.sampled_from(FAMILIES)
    families = families | families.map(arrays) | families.map(lambda each: one("m", each))
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    fields = {name: draw(families) | st.just("null") for name in names}
    records = st.fixed_dictionaries({}, optional=fields).map(written)
    return draw(st.lists(records, min_size=1, max_size=8))


def batch(records: list[str]) -> pa.RecordBatch:
    return messy.batch([record.encode() for record in records])


@settings(deadline=None)
@given(records=topics(), to=st.sampled_from(["iceberg", "delta"]), data=st.data())
def test_the_drafted_rule_lands_every_record_whichever_came_first(
    records: list[str], to: Any, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(records))
    all_land(records, to, shuffled, data.draw(st.integers(1, len(records)), "the first epoch"))


@pytest.mark.parametrize(
    "records",
    [
        ["{}", '{"a":null,"n[]":{}}', '{"n[]":"","a":["2000-01-01"]}'],
        ['{"A":null}', '{"a":"","A":["2000-01-01"]}', '{"a":{}}'],
        ['{"n[]":1}', '{"n[]":1.5}'],
        ['{"b":["2000-01-01"]}', '{"A":[{},""]}'],
    ],
)
def test_what_comes_first_in_the_sample_decides_nothing(records: list[str]) -> None:
    for shuffled in permutations(records):
        for count in range(1, len(records) + 1):
            all_land(records, "iceberg", [*shuffled], count)


def all_land(records: list[str], to: Any, shuffled: list[str], first_count: int) -> None:
    """Draft a rule for a sample, and land it by that in another order, in two epochs."""
    rule = drafted(Topic("t", 1, len(records), batch(records)), Setting(to, None, None))
    if rule.excluded == WITHOUT_COLUMNS:
        shown = {each.name for each in known(infer(batch(records))).fields}
        assert shown <= {"_file"}, "a name of the format's own gives no column"
        return
    assert ("", {}) == (rule.excluded, rule.rejected)
    hints = {path: parse_type(str(hint.type)) for path, hint in rule.hints.items()}
    assert {path: hint.type for path, hint in rule.hints.items()} == hints
    assert text_of("localhost:9092", to, "landing", None, SampledTopics((rule,)))

    policy = rule.settings["schema"]
    options = RowOptions(
        source_columns={"offset": "_kafka_offset"},
        columns=policy.get("columns", "quarantine"),
        types=policy.get("types", "quarantine"),
        format=rule.settings.get("records", {}).get("format", "json"),
    )
    first, order, readers = batch(shuffled[:first_count]), batch(shuffled), ReaderCache()
    shown = survey(first, options, readers, columns_max=2000)
    schema = table_schema(shown, hints, options)
    if options.columns == "evolve":
        schema = with_declared(
            schema, requested_schema(order, schema, options, readers, 2000), hints
        )
    assert schema == with_hints(schema, hints), "also what comes later has its declared type"
    if to == "delta":
        assert delta_json(schema), "Delta has all of the types"
    made = convert_batch(order, at=TopicPartition("id", 0, "t"), schema=schema, options=options)
    assert () == made.rejects
    assert len(records) == made.rows.num_rows
