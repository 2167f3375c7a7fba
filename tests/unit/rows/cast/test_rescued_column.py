"""What does not fit a landed row is kept next to it, with all of its digits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.rows.convert.test_batch import AT, batch_of
from tests.unit.rows.test_connect import connect_columns, decimal

from penstock.core.schema import Decimal, Field, Kind, List, Map, Struct
from penstock.rows.cast.rescued_column import rescued_json
from penstock.rows.convert.batch import ConvertedBatch, convert_batch
from penstock.rows.options import RowOptions
from penstock.rows.schema.inference import table_schema

INNER = Struct((Field("a", Kind.INT), Field("must", Kind.LONG, required=True)))
RESCUED = Field("_rescued", Kind.STRING)
TABLE = Struct(
    (
        Field("n", Kind.LONG),
        Field("price", Decimal(5, 2)),
        Field("items", List(INNER)),
        Field("by_name", Map(Kind.STRING, Kind.INT)),
        RESCUED,
    )
)
RESCUE = RowOptions({}, columns="rescue", types="rescue")


def landed(*texts: str, table: Struct = TABLE, options: RowOptions = RESCUE) -> ConvertedBatch:
    batch = batch_of(*(text.encode() for text in texts))
    return convert_batch(batch, at=AT, schema=table, options=options)


@pytest.mark.parametrize(
    ("text", "rescued"),
    [
        ('{"n":1}', None),
        ('{"n":1,"new":null,"empty":{}}', None),
        ('{"n":1.50}', '{"n":1.50}'),
        ('{"n":"x","new":{"é":[1,"a",null,true]}}', '{"n":"x","new":{"é":[1,"a",null,true]}}'),
        ('{"price":12345678901234567890.123}', '{"price":12345678901234567890.123}'),
        ('{"items":[{"must":1,"a":"x"},{"must":2,"a":true}]}', '{"items[].a":["x",true]}'),
        ('{"items":[{"must":1,"b":7}]}', '{"items[].b":[7]}'),
        ('{"items":[{"a":1,"b":7}]}', '{"items[]":[{"a":1,"b":7}]}'),
        ('{"by_name":{"k":"x","l":1}}', '{"by_name{}":["x"]}'),
        ('{"_rescued":"mine"}', '{"_rescued":"mine"}'),
        ('{"items":5}', '{"items":5}'),
        ('{"n":{"b":1},"n.b":2}', '{"n":{"b":1},"n\\\\.b":2}'),
        ('{"new[]":1,"m{}":2,"x\\\\y":3}', '{"m\\\\{}":2,"new\\\\[]":1,"x\\\\\\\\y":3}'),
        ('{"items":[{"must":1,"b.c":7}]}', '{"items[].b\\\\.c":[7]}'),
    ],
)
def test_what_does_not_fit_is_kept_by_its_path(text: str, rescued: str | None) -> None:
    done = landed(text)

    assert [rescued] == done.rows.column("_rescued").to_pylist()
    assert () == done.rejects


def test_records_that_fit_land_next_to_those_that_do_not() -> None:
    texts = [json.dumps({"n": n} if n % 10 else {"n": n, "x": n}) for n in range(500)]

    rows = landed(*texts).rows

    assert list(range(500)) == rows.column("n").to_pylist()
    kept = rows.column("_rescued").to_pylist()
    assert [None if n % 10 else f'{{"x":{n}}}' for n in range(500)] == kept


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ('{"n":{"b":1}}', "P363", "n: an object, the column takes a number"),
        ('{"new":1}', "P361", "new: the table has no such column"),
    ],
)
def test_a_table_without_the_column_for_it_is_named_in_the_rejects(text, code, reason) -> None:
    table = Struct((Field("n", Kind.LONG),))

    (reject,) = landed(text, table=table).rejects

    assert code == reject.code
    end = "; nothing is rescued without a string column _rescued in the table"
    assert reason + end == reject.message
    strict = replace(RESCUE, columns="quarantine", types="quarantine")
    (plain,) = landed(text, table=table, options=strict).rejects
    assert reason == plain.message


def test_a_required_column_is_not_rescued() -> None:
    table = Struct((Field("n", Kind.LONG, required=True), RESCUED))

    done = landed('{"n":"x"}', "{}", table=table)

    assert ["P366", "P362"] == [reject.code for reject in done.rejects]


@pytest.mark.parametrize("column", [(), (Field("_rescued", Kind.LONG),)])
def test_without_a_column_to_keep_it_in_the_record_is_quarantined(column: Any) -> None:
    table = Struct((Field("n", Kind.LONG), *column))

    done = landed('{"n":"x"}', '{"x":1}', table=table)

    assert ["P366", "P361"] == [reject.code for reject in done.rejects]


def test_one_policy_may_rescue_and_the_other_not() -> None:
    columns = RowOptions({}, columns="rescue", types="drop_value")

    done = landed('{"n":"x","new":1}', options=columns)

    assert ['{"new":1}'] == done.rows.column("_rescued").to_pylist()
    assert {"n": 1} == done.dropped


def test_a_new_table_has_the_column_and_no_field_of_its_name() -> None:
    inferred = Struct((Field("n", Kind.LONG), Field("_Rescued", Kind.LONG)))

    assert Struct((Field("n", Kind.LONG), RESCUED)) == table_schema(inferred, {}, RESCUE)


def test_values_with_types_are_shown_in_json() -> None:
    done = connect_columns(
        {"raw": ("bytes", "AAE="), "x": ("double", "NaN"), "n": ("int32", 5)},
        Struct((Field("n", Kind.BOOLEAN), RESCUED)),
        columns="rescue",
        types="rescue",
    )

    expected = ['{"n":5,"raw":"AAE=","x":"nan"}']
    assert expected == done.rows.column("_rescued").to_pylist()


def test_two_values_of_names_alike_are_both_kept() -> None:
    table = Struct((Field("a", Struct((Field("c", Kind.LONG),))), RESCUED))

    texts = ['{"a":{"b":1},"a.b":2}', '{"":{"a":1},"a":5}']
    done = landed(*texts, table=table)

    assert [{"a.b": 1, "a\\.b": 2}, {"": {"a": 1}, "a": 5}] == [
        json.loads(text) for text in done.rows.column("_rescued").to_pylist()
    ]


def test_values_of_one_path_are_all_kept() -> None:
    assert '{"x":[1,[2]]}' == rescued_json([("x", 1), ("x", [2])])


@pytest.mark.parametrize(
    ("keys", "key", "shown"),
    [
        ({"type": "bytes"}, "AQ==", "AQ=="),
        ({"type": "boolean"}, True, "true"),
        ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, 5, "5"),
        (decimal(2), "AQ==", "0.01"),
        ({"type": "string"}, 'a"b', 'a"b'),
    ],
)
def test_keys_of_rescued_maps_are_shown_as_values_are(keys: Any, key: Any, shown: str) -> None:
    of_map = {"type": "map", "keys": keys, "values": {"type": "int32"}}

    done = connect_columns({"m": (of_map, [[key, 1]])}, Struct((RESCUED,)), columns="rescue")

    assert [{"m": {shown: 1}}] == [
        json.loads(text) for text in done.rows.column("_rescued").to_pylist()
    ]
