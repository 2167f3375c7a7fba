"""Rows become messages: keys, tombstones, times, conditions, and what does not fit."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import InvalidError
from penstock.rows.encode import encoder
from penstock.rows.encode.encoder import Misfit, encode, require_fit
from penstock.rows.encode.json_texts import JsonForm
from penstock.rows.encode.rules import MessageRules, rules_from_data, rules_to_data

NOW = 1_700_000_000_000
ROWS = pa.record_batch(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": pa.array(["a", None, "c"]),
        "raw": pa.array([b"\x00", b"", None], pa.binary()),
        "score": pa.array([0.5, 1.0, float("nan")]),
        "at": pa.array([0, 1_500, -1], pa.timestamp("us", "UTC")),
        "closed": pa.array([False, True, None]),
        "price": pa.array([Decimal("1.50"), None, Decimal("2.00")], pa.decimal128(9, 2)),
    }
)


def keys(**rules: object) -> list[bytes | None]:
    found = encode(ROWS, MessageRules(bytes_of="raw", **rules), now_ms=NOW)
    return found.messages.column("key").to_pylist()


def misfits(rows: pa.RecordBatch = ROWS, **rules: object) -> list[tuple[int, str, str]]:
    return [tuple(each)[:3] for each in encode(rows, MessageRules(**rules), now_ms=NOW).misfits]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("name", [b"a", None, b"c"]),
        ("id", [b"1", b"2", b"3"]),
        ("raw", [b"\x00", b"", None]),
        ("closed", [b"false", b"true", None]),
        ("price", [b"1.50", None, b"2.00"]),
    ],
)
def test_a_key_of_one_column_is_its_text_or_its_bytes(column, expected):
    assert expected == keys(key=(column,))


def test_a_key_of_several_columns_is_an_object():
    assert [b'{"id":1,"name":"a"}', b'{"id":2,"name":null}', b'{"id":3,"name":"c"}'] == keys(
        key=("id", "name"), key_is_object=True
    )
    assert [b'{"id":1}', b'{"id":2}', b'{"id":3}'] == keys(key=("id",), key_is_object=True)


def test_a_row_that_deletes_is_a_tombstone_whatever_its_value_is():
    rules = MessageRules(key=("id",), where="score > 0", delete_when="closed or score > 1")
    found = encode(ROWS, rules, now_ms=NOW)

    assert [b"1", b"2", b"3"] == found.messages.column("key").to_pylist()
    first, *others = found.messages.column("value").to_pylist()
    assert 0.5 == json.loads(first)["score"]
    assert [None, None] == others  # NaN is above all numbers in SQL


def test_rows_for_which_a_condition_is_not_true_are_filtered():
    found = encode(ROWS, MessageRules(bytes_of="raw", where="not closed"), now_ms=NOW)

    assert ([0], 2, ()) == (found.places.tolist(), found.filtered, found.misfits)


def test_a_condition_that_cannot_be_computed_is_told_of_its_row_alone():
    where = "cast(case when id = 2 then 'x' else '1' end as int) = 1"
    found = encode(ROWS, MessageRules(bytes_of="raw", where=where), now_ms=NOW)

    assert [0, 2] == found.places.tolist()
    assert (Misfit(1, "where", "where cannot be computed for this row", "P380"),) == found.misfits


def test_a_value_that_json_cannot_hold_is_told_with_its_column():
    assert [(2, "score", "it is no number")] == misfits()
    nested = pa.record_batch({"deep": pa.array([[{"x": [1.0]}], [{"x": [2.0, float("inf")]}]])})
    assert [(1, "deep[].x[]", "it is no number")] == misfits(nested)


def test_a_tombstone_needs_a_key():
    assert [(1, "name", "a row that deletes has no key")] == misfits(
        key=("name",), delete_when="closed", where="id < 3"
    )


def test_a_misfit_has_its_key_where_that_fits():
    nan = pa.record_batch({"k": ["a", None], "d": [float("nan"), float("inf")]})

    def of(key: str) -> list[bytes | None]:
        found = encode(nan, MessageRules(key=(key,)), now_ms=NOW)
        return [each.key for each in found.misfits]

    assert ([b"a", None], [None, None]) == (of("k"), of("d"))


def test_a_column_whose_name_begins_as_the_keys_is_another():
    rows = pa.record_batch({"id": ["a"], "idle": [float("nan")]})

    [found] = encode(rows, MessageRules(key=("id",)), now_ms=NOW).misfits
    assert ("idle", b"a") == (found.column, found.key)


@pytest.mark.parametrize("values", [pa.array(['a"b', None]), pa.array([b"\xff", None])])
def test_a_key_is_the_same_however_its_column_is_held(values):
    held = pa.record_batch({"k": values.dictionary_encode()})

    found = encode(held, MessageRules(key=("k",), bytes_of="k"), now_ms=NOW).messages
    expected = values.cast(pa.binary()).to_pylist()
    assert [expected, expected] == [found.column(name).to_pylist() for name in ("key", "value")]


@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal256(50, 2)], ids=str)
def test_a_column_that_sql_cannot_read_is_a_mistake_of_the_condition(kind):
    rows = pa.record_batch({"id": [1], "x": pa.nulls(1, kind)})

    with pytest.raises(InvalidError, match="where does not fit the rows") as raised:
        encode(rows, MessageRules(where="x is null"), now_ms=NOW)
    assert "P838" == raised.value.code


@pytest.mark.parametrize("rules", [MessageRules(), MessageRules(key=("id",), bytes_of="raw")])
def test_columns_of_one_name_are_refused(rules):
    columns = [pa.array([1]), pa.array([2]), pa.array([b"x"])]
    rows = pa.RecordBatch.from_arrays(columns, names=["id", "id", "raw"])

    with pytest.raises(InvalidError, match="2 columns of the name id") as raised:
        encode(rows, rules, now_ms=NOW)
    assert "P838" == raised.value.code


def test_a_row_without_an_answer_has_its_key():
    """Unless that does not fit."""
    rows = pa.record_batch({"id": [0.5, float("nan"), 1.5], "n": ["1", "x", "y"]})
    rules = MessageRules(key=("id",), where="cast(n as int) > 0")

    found = encode(rows.select(["id", "n"]), rules, now_ms=NOW).misfits
    assert [(1, None), (2, b"1.5")] == [(each.row, each.key) for each in found]


def test_times_are_those_of_a_column_or_of_encoding():
    found = encode(ROWS, MessageRules(bytes_of="raw"), now_ms=NOW)
    assert {NOW} == {*found.messages.column("timestamp").cast(pa.int64()).to_pylist()}

    found = encode(ROWS, MessageRules(bytes_of="raw", timestamp="at"), now_ms=NOW)
    assert [0, 1] == found.messages.column("timestamp").cast(pa.int64()).to_pylist()
    assert ["at"] == [each.column for each in found.misfits]


@pytest.mark.parametrize(
    ("rules", "code", "said"),
    [
        ({"key": ("idd",)}, "P838", "key does not fit the rows: they have no column 'idd'"),
        ({"where": "idd > 1"}, "P838", "where does not .* no column 'idd'"),
        ({"where": "name = jim"}, "P838", "no column 'jim'"),
        ({"where": "name + id"}, "P838", "it does not compute"),
        ({"where": "id + 1"}, "P838", "it gives BIGINT"),
        ({"delete_when": "_kafka_offset > 1"}, "P838", "have no column '_kafka_offset'"),
        ({"bytes_of": "id"}, "P839", "bytes are of binary or string"),
        ({"timestamp": "id"}, "P839", "is no timestamp"),
    ],
)
def test_rules_that_do_not_fit_the_table(rules, code, said):
    with pytest.raises(InvalidError, match=said) as refused:
        encode(ROWS, MessageRules(**rules), now_ms=NOW)
    assert code == refused.value.code


def test_all_columns_that_rules_name_and_a_table_lacks_are_told_at_once():
    rules = MessageRules(key=("idd",), timestamp="att", where="nam = 'x'")
    said = "key .* column 'idd'; timestamp .* column 'att'; where .* column 'nam'"
    with pytest.raises(InvalidError, match=said) as refused:
        require_fit(ROWS.schema, rules)
    assert "P838" == refused.value.code


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[({"a": 1}, 2)]], pa.map_(pa.struct([("a", pa.int32())]), pa.int32())),
        pa.array([dt.timedelta(1)], pa.duration("s")),
    ],
)
def test_a_type_without_a_form_in_json(values):
    with pytest.raises(InvalidError) as refused:
        encode(pa.record_batch({"it": values}), MessageRules(), now_ms=NOW)
    assert "P839" == refused.value.code


def test_two_columns_that_sql_takes_for_one():
    rows = pa.record_batch([pa.array([1]), pa.array([2])], ["a", "A"])

    assert [b'{"a":1,"A":2}'] == encode(rows, MessageRules(), now_ms=1).messages[
        "value"
    ].to_pylist()
    with pytest.raises(InvalidError, match="a or A for one"):
        encode(rows, MessageRules(where="a = 1"), now_ms=1)


def test_rows_are_encoded_piece_by_piece(monkeypatch):
    monkeypatch.setattr(encoder, "PIECE_ROWS_MAX", 7)
    rows = pa.record_batch({"n": np.arange(30, dtype=np.float64)})
    rows = rows.set_column(
        0, "n", pa.array([*range(20), float("nan"), *range(21, 30)], pa.float64())
    )
    found = encode(rows, MessageRules(where="n <> 5"), now_ms=1)

    assert [n for n in range(30) if n not in (5, 20)] == found.places.tolist()
    assert (1, [20]) == (found.filtered, [each.row for each in found.misfits])
    assert 29.0 == json.loads(found.messages["value"][-1].as_py())["n"]


def test_rules_survive_as_data():
    rules = MessageRules(("a", "b"), True, JsonForm("number", "millis"), "v", "w", "d", "t")
    assert rules == rules_from_data(json.loads(json.dumps(rules_to_data(rules))))


def test_headers_are_columns_that_are_no_part_of_the_value():
    rows = pa.record_batch({"n": [1, 2], "id": ["x", "y"], "at": [None, "now"]})
    headers = {"id": "id", "at": "at"}
    rules = MessageRules(key=("id",), headers=headers, omits_headers=True, columns=("n",))
    found = encode(rows, rules, now_ms=NOW).messages.to_pylist()

    assert [b'{"n":1}', b'{"n":2}'] == [each["value"] for each in found]
    assert [[("id", b"x")], [("id", b"y"), ("at", b"now")]] == [
        [(own["key"], own["value"]) for own in each["headers"]] for each in found
    ]
    assert rules == rules_from_data(json.loads(json.dumps(rules_to_data(rules))))
    assert "headers" not in rules_to_data(MessageRules())


def test_a_slice_with_structs_of_nulls_beside_uuids_is_encoded():
    """By Arrow's own cast the struct's member was shorter than the struct, and reading it crashed."""
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 3, pa.binary(16)))
    nulls = pa.StructArray.from_arrays([pa.nulls(3)], ["n"])
    rows = pa.record_batch({"id": ids, "deep": nulls}).slice(1)
    found = encode(rows, MessageRules(), now_ms=1)

    value = b'{"id":"00000000-0000-0000-0000-000000000000","deep":{"n":null}}'
    assert [value] * 2 == found.messages.column("value").to_pylist()


@pytest.mark.parametrize("sign", [*map(chr, range(32)), '"', "\\"])
def test_a_text_that_has_one_sign_to_escape_is_json(sign):
    rows = pa.record_batch({"name": pa.array(["before", "plain", f"a{sign}b", "behind"])})
    values = encode(rows.slice(1, 2), MessageRules(), now_ms=NOW).messages.column("value")

    assert [{"name": "plain"}, {"name": f"a{sign}b"}] == [json.loads(e) for e in values.to_pylist()]
