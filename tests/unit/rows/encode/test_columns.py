"""Columns that SQL computes of rows, headers of their messages, and tombstones of their source."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.core.errors import InvalidError
from penstock.ports.sources import MESSAGES
from penstock.rows.encode.encoder import encode, require_fit
from penstock.rows.encode.framing import with_texts
from penstock.rows.encode.rules import MessageRules, MessageSchema, rules_from_data, rules_to_data

KEPT = [[{"key": "a", "value": b"\xff"}], [], None]
ROWS = pa.record_batch(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "v": pa.array(["10", "x", None]),
        "_kafka_key": pa.array([b"k", b"\xff", None], pa.binary()),
        "_kafka_headers": pa.array(KEPT, MESSAGES.field("headers").type),
        "gone": pa.array([False, None, True]),
    }
)


def made(**rules: object) -> list[dict[str, object]]:
    return encode(ROWS, MessageRules(**rules), now_ms=0).messages.to_pylist()


def values(**rules: object) -> list[object]:
    found = (each["value"] for each in made(columns=("id",), **rules))
    return [None if each is None else json.loads(each) for each in found]


def test_a_value_has_the_columns_that_are_named_in_their_order():
    rules = {"columns": ("w", "id"), "computed": {"w": "id * 2 + 1"}}
    assert [b'{"w":3,"id":1}', b'{"w":5,"id":2}', b'{"w":7,"id":3}'] == [
        each["value"] for each in made(**rules)
    ]


def test_keys_and_conditions_may_name_what_is_computed():
    rules = {"computed": {"w": "id % 2 = 0"}, "key": ("w",), "delete_when": "w"}
    assert [(b"false", False), (b"true", True), (b"false", False)] == [
        (each["key"], each["value"] is None) for each in made(**rules)
    ]


def test_a_row_for_which_nothing_can_be_computed_is_no_message():
    found = encode(ROWS, MessageRules(computed={"w": "cast(v as int)"}), now_ms=0)
    assert [(1, "w")] == [(each.row, each.column) for each in found.misfits]
    assert [0, 2] == found.places.tolist()


def test_keys_and_headers_of_records_are_text_to_sql():
    assert [{"id": 1}] == values(where="_kafka_key = 'k' and _kafka_headers['b'] is null")
    found = encode(ROWS, MessageRules(where="_kafka_key = 'k'"), now_ms=0)
    assert ([0], 1, [1]) == (
        found.places.tolist(),
        found.filtered,
        [each.row for each in found.misfits],
    )


def headed(*headers: tuple[str, bytes | None], key: bytes = b"k") -> dict[str, object]:
    entries = [{"key": name, "value": value} for name, value in headers]
    return {"_kafka_key": key, "_kafka_headers": entries, "gone": False}


KINDS = pa.schema(
    {
        "_kafka_key": pa.binary(),
        "_kafka_headers": MESSAGES.field("headers").type,
        "gone": pa.bool_(),
    }
)
HEADED = pa.RecordBatch.from_pylist(
    [
        headed(("a", b"x"), ("b", b"\xff")),
        headed(("a", b"\xff"), ("a", b"y")),
        headed(("a", b"z"), ("a", b"\xfe"), key=b"\xff"),
        headed(("a", None)),
        {"_kafka_key": b"k", "_kafka_headers": None, "gone": False},
        headed(("a", b"\xff"), key=b"d") | {"gone": True},
    ],
    KINDS,
)
"""Text and bytes, a name that is repeated, a name that is none, and a tombstone."""
TOMBSTONES = {"deleted": "gone", "key": ("_kafka_key",)}


def test_a_header_that_is_a_header_or_the_key_of_its_record_has_its_bytes():
    names = {"a": "_kafka_headers['a']", "k": "payload._KAFKA_KEY", "c": "(_kafka_headers['c'])"}
    found = encode(HEADED, MessageRules(headers=names, **TOMBSTONES), now_ms=0)
    assert [
        [b"x", b"k", None],
        [b"y", b"k", None],
        [b"\xfe", b"\xff", None],
        [None, b"k", None],
        [b"\xff", b"d", None],
    ] == [[h["value"] for h in each] for each in found.messages.column("headers").to_pylist()]
    assert [(4, "headers.a", "the name of a header is not UTF-8")] == [
        each[:3] for each in found.misfits
    ]
    part = encode(HEADED.slice(1, 2), MessageRules(headers=names), now_ms=0).messages
    assert [b"y", b"\xfe"] == [each[0]["value"] for each in part.column("headers").to_pylist()]


KEY_UNREAD, A_UNREAD, NAME_UNREAD = (
    f"the {what} is not UTF-8" for what in ("key", "header 'a'", "name of a header")
)


@pytest.mark.parametrize(
    ("sql", "unread"),
    [
        ("_kafka_headers['a'] = 'x'", {2: A_UNREAD, 4: NAME_UNREAD}),
        ("_kafka_headers['b'] is not null", {4: NAME_UNREAD}),
        ("_KAFKA_HEADERS['c'] = 'x' or 1 = 1", {4: NAME_UNREAD}),
        ("cast(_kafka_key as int) > 0", {2: KEY_UNREAD}),
        ("_kafka_key is not null", {}),
        ("not gone", {}),
    ],
)
def test_a_row_whose_key_or_header_sql_reads_and_cannot_is_a_misfit(sql, unread):
    """It is none where nothing asks for it, or only whether it is there; nor is a tombstone."""
    found = encode(HEADED, MessageRules(where=f"{sql} is true", **TOMBSTONES), now_ms=0)
    reasons = {each.row: each.reason for each in found.misfits if each.code == "P303"}
    assert unread == reasons
    assert 5 in found.places
    single = [
        encode(HEADED.slice(row, 1), MessageRules(where=sql, **TOMBSTONES), now_ms=0)
        for row in range(len(HEADED))
    ]
    assert found.filtered == sum(each.filtered for each in single)


def test_all_headers_are_read_where_the_expression_does_not_say_which():
    rules = MessageRules(computed={"n": "map_keys(_kafka_headers)"}, columns=("n",), **TOMBSTONES)
    found = encode(HEADED, rules, now_ms=0)
    unread = {row: f"the header {name!r} is not UTF-8" for row, name in ((0, "b"), (2, "a"))}
    assert {**unread, 4: NAME_UNREAD} == {each.row: each.reason for each in found.misfits}


@pytest.mark.parametrize(
    "rules",
    [
        {"headers": {"h": "upper(_kafka_headers['a'])"}},
        {"computed": {"c": "_kafka_headers['a']"}, "headers": {"h": "c"}},
    ],
)
def test_a_tombstone_is_a_misfit_where_its_header_is_made_of_one_that_cannot_be_read(rules):
    found = encode(HEADED, MessageRules(**TOMBSTONES, columns=("gone",), **rules), now_ms=0)
    assert {2, 4, 5} == {each.row for each in found.misfits}
    kept = found.messages.column("headers").to_pylist()
    assert ([0, 1, 3], 3) == (found.places.tolist(), len(kept))


def test_headers_are_bytes_as_they_are_and_others_as_text():
    names = {"key": "_kafka_key", "n": "id", "up": "upper(v)", "none": "null"}
    assert [
        [("key", b"k"), ("n", b"1"), ("up", b"10"), ("none", None)],
        [("key", b"\xff"), ("n", b"2"), ("up", b"X"), ("none", None)],
        [("key", None), ("n", b"3"), ("up", None), ("none", None)],
    ] == [[(h["key"], h["value"]) for h in each["headers"]] for each in made(headers=names)]


def test_a_header_that_is_null_may_be_left_out():
    rules = {"headers": {"v": "v", "none": "null", "id": "id"}, "omits_headers": True}
    assert [["v", "id"], ["v", "id"], ["id"]] == [
        [each["key"] for each in message["headers"]] for message in made(**rules)
    ]


def test_headers_that_are_kept_have_names_of_utf_8():
    found = encode(ROWS, MessageRules(headers_of="_kafka_headers", columns=("id",)), now_ms=0)
    assert KEPT[:2] == found.messages.column("headers").to_pylist()
    assert [(2, "_kafka_headers")] == [(each.row, each.column) for each in found.misfits]


def test_a_tombstone_of_the_source_is_one_whatever_where_says_and_nothing_is_asked_of_it():
    rows = ROWS.set_column(2, "_kafka_key", pa.array([b"a", b"b", b"c"], pa.binary()))
    rules = MessageRules(
        key=("_kafka_key",),
        where="v = '10'",
        computed={"w": "cast(coalesce(v, 'none') as int)"},
        headers={"h": "cast(coalesce(v, 'none') as int)", "n": "1 / (v is not null)::int"},
        deleted="gone",
    )
    found = encode(rows, rules, now_ms=0)
    assert ([0, 2], 1, ()) == (found.places.tolist(), found.filtered, found.misfits)
    kept, gone = found.messages.to_pylist()
    assert [(b"a", False), (b"c", True)] == [
        (each["key"], each["value"] is None) for each in (kept, gone)
    ]
    assert {("h", None), ("n", None)} == {(h["key"], h["value"]) for h in gone["headers"]}


def test_a_schema_is_made_of_the_columns_of_the_value():
    rules = MessageRules(
        columns=("w", "id"), computed={"w": "id / 2"}, value_schema=MessageSchema("r")
    )
    text = json.loads(with_texts(rules, ROWS.schema).value_schema.text)
    assert ["w", "id"] == [each["name"] for each in text["fields"]]
    require_fit(ROWS.schema, rules)


def test_a_tombstone_has_the_time_of_its_record_where_the_others_have_that_of_a_column():
    rows = pa.record_batch(
        {
            "_kafka_key": pa.array([b"a", b"b"], pa.binary()),
            "at": pa.array([5_000, None], pa.timestamp("us", "UTC")),
            "_kafka_timestamp": pa.array([7, 8], pa.timestamp("ms", "UTC")),
            "gone": [False, True],
        }
    )
    rules = MessageRules(("_kafka_key",), timestamp="at", deleted="gone", columns=("at",))
    assert [1] == [each.row for each in encode(rows, rules, now_ms=0).misfits]
    found = encode(rows, replace(rules, deleted_at="_kafka_timestamp"), now_ms=0).messages
    assert [5, 8] == [each.value for each in found.column("timestamp")]


@pytest.mark.parametrize(
    "sql",
    [
        "340282366920938463463374607431768211455::uhugeint",
        "timetz '10:00:00+02'",
        "'101'::bit",
        "[12::bignum]",
        "{'a': map {'b': union_value(n := id)}}",
        "v::variant",
    ],
)
def test_a_type_whose_values_do_not_arrive_as_they_are_is_a_mistake_of_the_spec(sql):
    rules = MessageRules(computed={"w": sql})
    with pytest.raises(InvalidError, match="would not arrive as they are") as caught:
        require_fit(ROWS.schema, rules)
    assert "P838" == caught.value.code
    text = f"cast({sql} as varchar)"
    assert 3 == len(values(computed={"w": text}))


def test_what_is_no_time_of_a_day_is_no_message():
    hours = "case when id = 2 then time '24:00:00' else time '23:59:59.999999' end"
    rules = MessageRules(computed={"w": hours}, columns=("w",))
    found, misfit = encode(ROWS, rules, now_ms=0), (1, "w", "it is no time of a day")
    for form in ("avro", "json-schema", "protobuf"):
        framed = with_texts(
            replace(rules, value_schema=MessageSchema("r", format=form)), ROWS.schema
        )
        assert [misfit] == [each[:3] for each in encode(ROWS, framed, now_ms=0).misfits]
    assert [misfit] == [each[:3] for each in found.misfits]
    assert {b'{"w":"23:59:59.999999"}'} == {*found.messages.column("value").to_pylist()}


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"computed": {"w": "nope + 1"}}, "transform.columns.w"),
        ({"computed": {"id": "1"}}, "2 columns of the name id"),
        ({"headers": {"h": "nope"}}, "headers.h"),
        ({"columns": ("nope",)}, "value.columns"),
    ],
)
def test_what_does_not_fit_is_told_before_a_row_is_read(rules, words):
    with pytest.raises(InvalidError, match=words) as caught:
        require_fit(ROWS.schema, MessageRules(**rules))
    assert "P838" == caught.value.code


def test_rules_are_read_as_they_were_written():
    rules = MessageRules(
        columns=("w",), computed={"w": "id"}, headers={"h": "id"}, deleted="d", keeps_partition=True
    )
    assert rules == rules_from_data(json.loads(json.dumps(rules_to_data(rules))))
