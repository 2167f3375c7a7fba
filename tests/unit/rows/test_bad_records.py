"""Bytes that are no record, or pretend to be several: each has a code, and no neighbour suffers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, List, Struct
from penstock.rows.convert.batch import ConvertedBatch, convert_batch
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import CODE_INFO, RejectCode, RejectError, Stage, safe_text

AT = TopicPartition("id", 0, "events")
SCHEMA = Struct((Field("a", Kind.LONG), Field("b", Kind.STRING), Field("c", List(Kind.DOUBLE))))


def landed(*values: bytes | None, **options: object) -> ConvertedBatch:
    count = len(values)
    batch = pa.record_batch(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.nulls(count, pa.timestamp("ms", "UTC")),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
    return convert_batch(batch, at=AT, schema=SCHEMA, options=RowOptions({}, **options))  # type: ignore[arg-type]


BAD = [
    (b"", RejectCode.EMPTY),
    (b" \n\t", RejectCode.EMPTY),
    (b"{", RejectCode.MALFORMED),
    (b'{"a"', RejectCode.MALFORMED),
    (b'{"a":1', RejectCode.MALFORMED),
    (b'{"a":1,}', RejectCode.MALFORMED),
    (b'{"a":1 "b":""}', RejectCode.MALFORMED),
    (b'{"a":1/**/}', RejectCode.MALFORMED),
    (b"{a:1}", RejectCode.MALFORMED),
    (b'{"a":nul}', RejectCode.MALFORMED),
    (b'{"a":NaN}', RejectCode.MALFORMED),
    (b'{"c":[NaN]}', RejectCode.MALFORMED),
    (b'{"c":[1,-Infinity]}', RejectCode.MALFORMED),
    (b"\x00", RejectCode.MALFORMED),
    (b'{"a":1}\x00', RejectCode.TRAILING_DATA),
    (b'\x00{"a":1}', RejectCode.MALFORMED),
    (b'{\x0c"a":1}', RejectCode.MALFORMED),
    (b"\x00\x00\x00\x00\x05Avro", RejectCode.MALFORMED),
    (b'{"a":1}x', RejectCode.TRAILING_DATA),
    (b'{"a":1}{"a":2}', RejectCode.TRAILING_DATA),
    (b'{"a":1}\n{"a":2}', RejectCode.TRAILING_DATA),
    (b"\xef\xbb\xbf{}", RejectCode.BYTE_ORDER_MARK),
    (b"\xff\xfe{\x00}\x00", RejectCode.NOT_UTF8),
    (b'{"b":"\xff"}', RejectCode.NOT_UTF8),
    (b'{"b":"\xc0\x80"}', RejectCode.NOT_UTF8),
    (b'{"b":"\xed\xa0\x80"}', RejectCode.NOT_UTF8),
    (b'{"b\xff":1}', RejectCode.NOT_UTF8),
    (b'{"b":"\\ud800"}', RejectCode.LONE_SURROGATE),
    (b'{"\\udfff":null}', RejectCode.LONE_SURROGATE),
    (b'{"a":1,"a":1}', RejectCode.DUPLICATE_KEY),
    (b'{"a":null,"\\u0061":1}', RejectCode.DUPLICATE_KEY),
    (b'{"x":{"y":null,"y":null}}', RejectCode.DUPLICATE_KEY),
    (b"null", RejectCode.NOT_AN_OBJECT),
    (b"1", RejectCode.NOT_AN_OBJECT),
    (b"[]", RejectCode.NOT_AN_OBJECT),
    (b'[{"a":1}]', RejectCode.NOT_AN_OBJECT),
    (b'"{}"', RejectCode.NOT_AN_OBJECT),
    (b"true", RejectCode.NOT_AN_OBJECT),
    (b'{"x":' + b"[" * 64 + b"]" * 64 + b"}", RejectCode.TOO_DEEP),
    (b"[" * 100_000, RejectCode.TOO_DEEP),
    (b'{"a":' * 100_000, RejectCode.TOO_DEEP),
    (b'{"nope":1}', RejectCode.UNKNOWN_FIELD),
    (b'{"A":1}', RejectCode.UNKNOWN_FIELD),
    (b'{"a\\u0000":1}', RejectCode.UNKNOWN_FIELD),
    (b'{"' + b"x" * 10_240 + b'":1}', RejectCode.UNKNOWN_FIELD),
    (b'{"../../etc":1}', RejectCode.UNKNOWN_FIELD),
    (b"{" + b",".join(b'"k%d":1' % i for i in range(5000)) + b"}", RejectCode.UNKNOWN_FIELD),
]

FORGED = [
    b'1}{"v":2',
    b'{"a":1}}\n{"v":{"a":2}',
    b'{"a":1}}{"v":{"a":2}',
    b'{"a":1}}{"v":{"a":2}}{"v":{"a":3}',
    b'{"a":1},"v":{"a":2}',
    b'null,"v":{"a":2}',
    b'{"a":1},"w":null',
    b'{"a":1}}null{"v":{"a":2}',
    b'{"a":1}}\n null \n{"v":{"a":2}',
    b'{"a":1}}{"v":{"a":2}}{"v":{"a":3}}\x00',
    b'{"a":1}}\n{"v":{"a":2}}\n\x00{',
    b'}\n{"v":',
    b'{"b":"',
    b'"}',
    b'{"a":1}}\n',
    b'\n{"v":{"a":1}',
]


@pytest.mark.parametrize(("value", "code"), BAD, ids=lambda x: str(x)[:30])
def test_a_bad_record_is_refused_with_its_code_and_its_neighbours_land(
    value: bytes, code: RejectCode
) -> None:
    done = landed(b'{"a":1}', value, b'{"a":3}', value)

    assert [1, 3] == done.rows.column("a").to_pylist()
    assert [(1, code), (3, code)] == [(reject.offset, reject.code) for reject in done.rejects]
    assert {str(CODE_INFO[code].stage)} == {reject.stage for reject in done.rejects}
    assert all(len(r.message) <= 200 and r.message.isprintable() for r in done.rejects)


@pytest.mark.parametrize("value", FORGED, ids=repr)
def test_a_wrap_cannot_be_forged(value: bytes) -> None:
    done = landed(b'{"a":1}', value, b'{"a":3}', b'{"a":4}', b" ", b" ", b" ")

    assert [1, 3, 4] == done.rows.column("a").to_pylist()
    assert [1, 4, 5, 6] == [reject.offset for reject in done.rejects]


@pytest.mark.parametrize("value", FORGED, ids=repr)
def test_a_forged_wrap_alone_or_in_front_is_refused(value: bytes) -> None:
    assert [0] == [reject.offset for reject in landed(value).rejects]
    assert [0, 1] == [reject.offset for reject in landed(value, value).rejects]


def test_halves_of_a_record_do_not_meet_in_the_middle() -> None:
    done = landed(b'{"b":"x', b'y"}', b'{"a":1', b',"b":"z"}', b'{"a":1', b"2}", b'{"a":7}')

    assert [7] == done.rows.column("a").to_pylist()
    assert [0, 1, 2, 3, 4, 5] == [reject.offset for reject in done.rejects]


def test_pretty_printed_records_land() -> None:
    pretty = b'{\r\n  "a" : 1,\n\t"c": [\n 1,\n 2 ]\n}\n'

    done = landed(pretty, b'{"a":2}', pretty, b'\n{"a":3}', pretty)

    assert [1, 2, 1, 3, 1] == done.rows.column("a").to_pylist()
    assert [[1, 2], None, [1, 2], None, [1, 2]] == done.rows.column("c").to_pylist()


def test_a_record_at_the_limit_of_depth_lands_and_its_strings_do_not_count() -> None:
    deep = b'{"x":' + b"[" * 63 + b"]" * 63 + b"}"
    brackets = b'{"b":"' + b'[{\\"' * 100 + b'"}'

    done = landed(deep, brackets, b'{"a":1}')

    assert () == done.rejects
    assert ['[{"' * 100] == done.rows.column("b").to_pylist()[1:2]


def test_the_depth_of_nesting_is_counted_with_the_record_itself() -> None:
    assert {"a": []} == parse_object(b'{"a":[]}', depth_max=2)
    with pytest.raises(RejectError, match="deeper than 1"):
        parse_object(b'{"a":[]}', depth_max=1)


def test_a_record_over_the_limit_of_bytes_is_refused_unread() -> None:
    done = landed(b'{"a":1}', b'{"a":10}', b'{"nope"}', record_bytes_max=7)

    assert [1] == done.rows.column("a").to_pylist()
    assert [(1, "limit", "P341"), (2, "limit", "P341")] == [
        (reject.offset, reject.stage, reject.code) for reject in done.rejects
    ]


def test_a_table_shallower_than_its_limit_still_refuses_deep_unknown_fields() -> None:
    deep = b'{"x":[[[[]]]]}'

    done = landed(deep, b'{"a":1}', deep, depth_max=4)

    assert [(0, "P342"), (2, "P342")] == [(r.offset, r.code) for r in done.rejects]
    assert [1] == done.rows.column("a").to_pylist()


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b'{"a":2,"n":NaN}', RejectCode.MALFORMED),
        (b'{"n":Infinity}', RejectCode.MALFORMED),
        (b'{"m":[{"x":0.5},{"x":NaN}]}', RejectCode.MALFORMED),
        (b'{"n":1,"n":1}', RejectCode.DUPLICATE_KEY),
        (b'{"m":[{"x":1,"x":1}]}', RejectCode.DUPLICATE_KEY),
    ],
)
def test_a_fault_in_a_dropped_field_refuses_the_record_all_the_same(
    bad: bytes, code: RejectCode
) -> None:
    done = landed(b'{"a":1,"n":1.5}', b'{"a":1,"m":[{"x":0.5}]}', bad, columns="drop_value")

    assert [1, 1] == done.rows.column("a").to_pylist()
    assert [(2, code)] == [(reject.offset, reject.code) for reject in done.rejects]
    assert {"n": 1, "m": 1} == done.dropped


def test_tombstones_are_counted_or_refused() -> None:
    skipped = landed(None, b'{"a":1}', None)
    assert ({"tombstone": 2}, ()) == (skipped.filtered, skipped.rejects)
    assert [1] == skipped.rows.column("a").to_pylist()

    refused = landed(None, b'{"a":1}', None, tombstones="quarantine")
    assert {} == refused.filtered
    assert [(0, "P309"), (2, "P309")] == [(r.offset, r.code) for r in refused.rejects]


def test_every_code_has_a_meaning_and_a_place_among_the_records_codes() -> None:
    assert list(RejectCode) == list(CODE_INFO)
    assert all(code.startswith("P3") for code in RejectCode)
    assert {Stage.DECODE, Stage.UNWRAP, Stage.ROUTE, Stage.CONVERT, Stage.LIMIT} == {
        m.stage for m in CODE_INFO.values()
    }


def test_a_message_is_bounded_and_printable_whatever_a_record_calls_its_fields() -> None:
    done = landed(b'{"\\u001b[31m' + b"x" * 10_000 + b'":1}')

    assert 200 == len(done.rejects[0].message)
    assert "�\\[31m" == done.rejects[0].message[:6]
    assert "a�b" == safe_text("a\nb")


def test_many_integers_of_thousands_of_digits_are_refused_as_one_is() -> None:
    endless = b'{"a":' + b"7" * 5000 + b"}"

    (alone,) = landed(endless).rejects
    storm = landed(*[endless] * 100).rejects

    assert "the number does not fit 64 bits" in alone.message
    assert {alone[1:]} == {reject[1:] for reject in storm}
    assert list(range(100)) == [reject.offset for reject in storm]
