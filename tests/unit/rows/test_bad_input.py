"""Every class of bad input gets its code, alone and among good records, and is counted under it.

What is no single record is tested where it happens (`ELSEWHERE`).
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from tests.golden.bad_input import Case, cases

from penstock.connectors.registry.compiling import compiled
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Decimal, Field, Kind, Schema, Struct
from penstock.ports.registry import RegisteredSchema, SchemaKey
from penstock.rows.convert.batch import ConvertedBatch, convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import CODE_INFO, RejectCode
from penstock.rows.schema.evolution import requested_schema
from penstock.rows.schema.survey import survey

AT = TopicPartition("id", 0, "events")
TABLE: Schema = Struct(
    (
        Field("id", Kind.LONG),
        Field("name", Kind.STRING),
        Field("ratio", Kind.DOUBLE),
        Field("price", Decimal(5, 2)),
        Field("day", Kind.DATE),
        Field("at", Kind.TIMESTAMPTZ),
        Field("tries", Kind.INT),
        Field("_kafka_key", Kind.STRING),
        Field("_kafka_timestamp", Kind.TIMESTAMPTZ),
    )
)
SOURCES = {"key": "_kafka_key", "timestamp": "_kafka_timestamp"}
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}
PROTO = 'syntax = "proto3"; message R { int64 id = 1; string name = 2; }'
CLASSES = {
    *("malformed JSON", "truncated", "invalid UTF-8", "byte order mark", "trailing bytes"),
    *("lone surrogate", "NUL", "duplicate keys", "deeper than limits.depth", "empty value"),
    *("larger than limits.record_bytes", "unknown schema id", "wrong magic byte"),
    *("numeric overflow", "NaN", "year 0 or 10000", "null key", "tombstone"),
    *("unknown operation code", "hostile names"),
}
"""Those that the data design names, and that are single records."""
ELSEWHERE = {
    "unroutable record": "test_what_a_route_refuses_reaches_none_of_its_tables",
    "column bomb": "test_more_columns_than_an_hour_allows_are_quarantined_and_the_table_goes_on",
    "table bomb": "test_beyond_the_cap_of_tables_records_are_quarantined_and_the_tables_there_go_on",
    "partition explosion": "test_one_file_for_each_partition_and_task_whatever_the_batches",
}
CASES = cases()


@dataclass(frozen=True)
class Two:
    """Hold an Avro schema under number 1 and a Protobuf schema under 2."""

    def find(self, key: SchemaKey) -> RegisteredSchema | None:
        return schemas().get(key.value)


@cache
def schemas() -> dict[str, RegisteredSchema]:
    return {
        "1": RegisteredSchema("avro", json.dumps(AVRO)),
        "2": compiled(RegisteredSchema("protobuf", PROTO)),
    }


def batch(several: list[Case]) -> pa.RecordBatch:
    headers = [[{"key": name, "value": value} for name, value in c.headers] for c in several]
    kind = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    return pa.record_batch(
        {
            "offset": pa.array(range(len(several)), pa.int64()),
            "timestamp": pa.array([c.timestamp_ms for c in several], pa.timestamp("ms", "UTC")),
            "key": pa.array([c.key for c in several], pa.binary()),
            "value": pa.array([c.value for c in several], pa.binary()),
            "headers": pa.array(headers, kind),
        }
    )


def landed(*several: Case) -> ConvertedBatch:
    """Land cases that share their rules."""
    rules = {repr((case.options, case.required)) for case in several}
    assert 1 == len(rules)
    options = RowOptions(SOURCES, **several[0].options)
    fields = (replace(f, required=f.name in several[0].required) for f in TABLE.fields)
    schema = Struct(tuple(fields))
    return convert_batch(
        batch(list(several)), at=AT, schema=schema, options=options, readers=ReaderCache(Two())
    )


@pytest.mark.parametrize("case", CASES, ids=[case.kind for case in CASES])
def test_a_case_has_its_outcome(case: Case) -> None:
    done = landed(case)

    assert [case.code] * (case.code is not None) == [reject.code for reject in done.rejects]
    assert ({case.filtered: 1} if case.filtered else {}) == done.filtered
    for name, value in (case.lands or {}).items():
        assert [value] == done.rows.column(name).to_pylist()
    assert all(each.message.isprintable() and len(each.message) <= 200 for each in done.rejects)


def test_bad_json_among_good_spoils_no_neighbour_and_is_counted_by_code() -> None:
    bad = [c for c in CASES if c.code and not c.options and not c.required]
    good = Case("good", b'{"id":7,"name":"n"}', None, None, None, None, (), 0)
    mixed = [each for case in bad for each in (good, case)]

    done = landed(*mixed)

    assert [7] * len(bad) == done.rows.column("id").to_pylist()
    assert Counter(case.code for case in bad) == Counter(reject.code for reject in done.rejects)
    assert {2 * n + 1: c.code for n, c in enumerate(bad)} == {
        reject.offset: reject.code for reject in done.rejects
    }


def test_a_thousand_headers_and_a_thousand_of_one_name_land() -> None:
    headers = tuple(("x-tries", str(n).encode()) for n in range(1000))
    case = Case("headers", b'{"id":1}', None, None, None, None, headers, 0)

    done = landed(replace(case, options={"header_columns": {"tries": "x-tries"}}))

    assert [999] == done.rows.column("tries").to_pylist()


def test_a_record_with_ten_thousand_fields_makes_no_columns() -> None:
    bomb = json.dumps({f"f{n}": n for n in range(10_000)}).encode()
    records = batch([Case("bomb", bomb, None, None, None, None, (), 0)])
    evolve = RowOptions(SOURCES, columns="evolve")

    assert Struct(()) == survey(records, evolve, ReaderCache(), columns_max=2000)
    assert TABLE == requested_schema(records, TABLE, evolve, ReaderCache(), 100)


def test_the_corpus_has_every_class_and_every_code_that_one_record_can_get() -> None:
    not_of_one_record = {
        *(
            RejectCode.UNDECIDED,
            RejectCode.UNROUTABLE,
            RejectCode.UNKNOWN_TABLE,
            RejectCode.NO_COLUMNS,
            RejectCode.POISON,
        ),
        RejectCode.UNEXPECTED,
    }
    elsewhere = {
        *(
            RejectCode.ZONE_UNEXPECTED,
            RejectCode.WRONG_LENGTH,
            RejectCode.EMPTY_TEXT,
            RejectCode.UNCOMPUTED,
        ),
        *(RejectCode.SLOW, RejectCode.NO_PARTITION, RejectCode.KEY_MISSING, RejectCode.KEY_ALONE),
        RejectCode.SEQUENCE_MISSING,
        *(RejectCode.CONSTRAINT, RejectCode.TOO_LONG),
        *(RejectCode.NOT_COMPUTED, RejectCode.NOT_AS_GENERATED),
    }
    expected = {str(code) for code in CODE_INFO} - not_of_one_record - elsewhere

    assert expected <= {case.code for case in CASES}
    assert CLASSES <= {case.kind for case in CASES}


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_what_is_no_single_record_is_tested_elsewhere(kind: str) -> None:
    tests = Path(__file__).parents[2]
    texts = [path.read_text("utf-8") for path in tests.rglob("*.py")]

    assert any(f"def {ELSEWHERE[kind]}(" in text for text in texts)
