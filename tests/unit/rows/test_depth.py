"""Records nested as deeply as a spec may allow, on a stack as deep as a worker's: none crashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.rows.schema.test_evolution import One
from tests.unit.rows.test_connect import batch

from penstock.connectors.delta.schema.types import arrow_schema, delta_json
from penstock.connectors.iceberg.schema.types import file_schema, to_iceberg
from penstock.core.offsets import TopicPartition
from penstock.core.schema import LEVELS_MAX, Field, Kind, Struct
from penstock.ports.registry import RegisteredSchema
from penstock.rows.convert.batch import convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import Policy, RowOptions
from penstock.rows.schema.evolution import changes_between, requested_schema, widened
from penstock.rows.schema.inference import levels_in, table_schema
from penstock.rows.schema.survey import survey
from penstock.spec.settings.sections import LimitSettings

AT = TopicPartition("id", 0, "orders")
DEEPEST = LimitSettings.model_json_schema()["properties"]["depth"]["maximum"]
FRAMES = 200
"""More than a worker has below it, in Spark or in pytest."""

OPENING = {"objects": (b'{"x":', b"}"), "arrays": (b"[", b"]"), "both": (b'[{"x":', b"}]")}
INNERMOST = {"number": b"1", "null": b"null", "pair": b'"\\ud83d\\ude00"'}
BARE = RowOptions({})
POLICIES: list[Policy] = ["quarantine", "drop_value", "rescue", "evolve", "freeze"]


def nested(shape: str, levels: int, innermost: bytes = b"1") -> bytes:
    opening, closing = OPENING[shape]
    times = (levels - 1) // (2 if shape == "both" else 1)
    return b'{"a":1,"u":%s%s%s}' % (opening * times, innermost, closing * times)


def below(frames: int, act: Callable[[], Any]) -> Any:
    return below(frames - 1, act) if frames else act()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("innermost", INNERMOST)
@pytest.mark.parametrize("shape", OPENING)
def test_the_deepest_record_that_a_spec_allows_has_an_outcome(
    shape: str, innermost: str, policy: Policy
) -> None:
    rescues = [Field("_rescued", Kind.STRING)] if policy == "rescue" else []
    table = Struct((Field("a", Kind.LONG), *rescues))
    options = RowOptions({}, columns=policy, types=policy, depth_max=DEEPEST)
    records = batch(nested(shape, DEEPEST, INNERMOST[innermost]))

    def land() -> tuple[int, list[str]]:
        assert ("a",) == survey(records, options, ReaderCache(), columns_max=2000).names
        assert table == requested_schema(records, table, options, ReaderCache(), 2000)
        done = convert_batch(records, at=AT, schema=table, options=options)
        return done.rows.num_rows, [reject.code for reject in done.rejects]

    lands = innermost == "null" or policy in ("drop_value", "rescue")
    expected = (1, []) if lands else (0, ["P361"])
    assert expected == below(FRAMES, land)


@pytest.mark.parametrize("shape", OPENING)
def test_what_is_nested_too_deeply_for_a_table_becomes_no_column(shape: str) -> None:
    options = RowOptions({}, columns="evolve")
    records = [nested(shape, levels) for levels in (LEVELS_MAX, LEVELS_MAX + 2)]

    found = [survey(batch(each), options, ReaderCache(), columns_max=2000) for each in records]
    asked = [
        requested_schema(batch(each), Struct(()), options, ReaderCache(), 2000) for each in records
    ]

    assert [("a", "u"), ("a",)] == [each.names for each in found]
    assert [("a", "u"), ("a",)] == [each.names for each in asked]


def deep(levels: int) -> bytes:
    return b'{"x":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("place", ["first", "last", "alone"])
def test_a_deep_member_takes_no_column_away_from_others(place: str) -> None:
    plain = b'{"id":1,"payload":{"amount":2,"who":"a"}}'
    odd = b'{"id":1,"payload":{"amount":2,"who":"a","extra":%s}}' % deep(31)
    records = {"first": (odd, plain), "last": (plain, odd), "alone": (odd,)}[place]

    created = table_schema(
        survey(batch(*records), RowOptions({}), ReaderCache(), columns_max=99), {}, BARE
    )
    assert "struct<id: long, payload: struct<amount: long, who: string>>" == str(created)
    done = convert_batch(batch(*records), at=AT, schema=created, options=BARE)
    assert ["P361"] == [reject.code for reject in done.rejects]
    assert len(records) - 1 == done.rows.num_rows


@pytest.mark.parametrize("count", [LEVELS_MAX - 2, LEVELS_MAX + 8])
def test_what_a_table_bears_of_a_deep_member_becomes_columns(count: int) -> None:
    chain = b'{"v":1,"next":' * count + b"null" + b"}" * count
    record = b'{"a":1,"u":{"n":%s,"l":[%s]}}' % (chain, deep(40))
    survived = survey(batch(record), RowOptions({}), ReaderCache(), columns_max=2000)
    grown = requested_schema(
        batch(record),
        Struct((Field("a", Kind.LONG), Field("u", Struct((Field("z", Kind.LONG),))))),
        RowOptions({}, columns="evolve"),
        ReaderCache(),
        2000,
    )

    borne = min(count, LEVELS_MAX - 2)
    for schema in (survived, grown):
        assert LEVELS_MAX == levels_in(schema)
        assert borne == str(schema).count("v: long")
        assert "x:" not in str(schema)


def schema_of_json_schema(members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": members}


def schema_of_avro(members: dict[str, Any]) -> dict[str, Any]:
    fields = [{"name": name, "type": type_} for name, type_ in members.items()]
    return {"type": "record", "name": f"R{id(members)}", "fields": fields}


@pytest.mark.parametrize(
    ("format_", "scalar", "record_of"),
    [("json-schema", {"type": "integer"}, schema_of_json_schema), ("avro", "long", schema_of_avro)],
)
def test_columns_of_a_schema_are_cut_where_they_are_too_deep(
    format_: Any, scalar: Any, record_of: Callable[[dict[str, Any]], Any]
) -> None:
    extra = [{"x": scalar}]
    for _ in range(30):
        extra.append({"x": record_of(extra[-1])})
    payload = {"amount": scalar, "extra": record_of(extra[-1])}
    schema = record_of({"id": scalar, "payload": record_of(payload)})
    readers = ReaderCache(One(RegisteredSchema(format_, json.dumps(schema))))
    options = RowOptions({}, format=format_)

    framed = batch(b"\x00\x00\x00\x00\x01{}")
    asked = survey(framed, options, readers, columns_max=2000)
    assert "struct<id: long, payload: struct<amount: long>>" == str(asked)


def test_records_do_not_deepen_a_table_one_after_the_other() -> None:
    options = RowOptions({}, columns="evolve")
    first = nested("objects", 4, b'{"y":1}')
    more = nested("objects", 4, b'{"z":' + b'{"x":' * 29 + b"1" + b"}" * 29 + b"}")

    once = widened(Struct(()), [first], options, 2000)
    assert [] == changes_between(once, widened(once, [more], options, 2000))


@pytest.mark.parametrize("shape", OPENING)
def test_tables_can_be_made_of_the_deepest_columns(shape: str, tmp_path: Any) -> None:
    record = batch(nested(shape, LEVELS_MAX))
    shown = survey(record, RowOptions({}), ReaderCache(), columns_max=2000)
    schema = table_schema(shown, {}, RowOptions({}))
    assert LEVELS_MAX - 2 <= levels_in(schema) <= LEVELS_MAX

    def made() -> pa.Schema:
        deltalake.Schema.from_json(delta_json(schema))
        return file_schema(to_iceberg(schema, 3))

    written = below(100, made).empty_table()
    pq.write_table(written, tmp_path / "file.parquet")
    assert written.schema == pq.read_table(tmp_path / "file.parquet").schema
    assert list(schema.names) == arrow_schema(schema).names
