"""What a batch becomes: columns in order, source columns, counts, and nothing lost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Struct
from penstock.rows.arrow_types import arrow_schema, arrow_type
from penstock.rows.convert.batch import convert_batch
from penstock.rows.options import HEADERS, RowOptions

AT = TopicPartition("Uabc", 3, "events")
SOURCES = {
    "topic": "_kafka_topic",
    "partition": "_kafka_partition",
    "offset": "_kafka_offset",
    "timestamp": "_kafka_timestamp",
}
SOURCE_FIELDS = (
    Field("_kafka_topic", Kind.STRING),
    Field("_kafka_partition", Kind.INT),
    Field("_kafka_offset", Kind.LONG),
    Field("_kafka_timestamp", Kind.TIMESTAMPTZ),
)
LONG = Struct((Field("a", Kind.LONG),))


def batch_of(*values: bytes | None, first: int = 0, stamp: int | None = 1000) -> pa.RecordBatch:
    count = len(values)
    return pa.record_batch(
        {
            "offset": pa.array(range(first, first + count), pa.int64()),
            "timestamp": pa.array([stamp] * count, pa.timestamp("ms", "UTC")),
            "key": pa.array([b"k"] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def test_each_type_has_its_arrow_form() -> None:
    nested = Struct((Field("x", Kind.INT, required=True),))
    schema = Struct(
        (
            Field("s", Kind.STRING, required=True),
            Field("u", Kind.UUID),
            Field("f", Fixed(3)),
            Field("n", Decimal(9, 2)),
            Field("t", Kind.TIMESTAMP),
            Field("z", Kind.TIMESTAMPTZ),
            Field("c", Kind.TIME),
            Field("l", List(nested, element_required=True)),
            Field("m", Map(Kind.STRING, Kind.DATE)),
        )
    )
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False)])

    expected = pa.schema(
        [
            pa.field("s", pa.string(), nullable=False),
            pa.field("u", pa.binary(16)),
            pa.field("f", pa.binary(3)),
            pa.field("n", pa.decimal128(9, 2)),
            pa.field("t", pa.timestamp("us")),
            pa.field("z", pa.timestamp("us", "UTC")),
            pa.field("c", pa.time64("us")),
            pa.field("l", pa.list_(pa.field("element", inner, nullable=False))),
            pa.field("m", pa.map_(pa.string(), pa.date32())),
        ]
    )
    assert expected == arrow_schema(schema)


def test_rows_have_the_tables_columns_in_order_and_the_sources_filled_in() -> None:
    fields = SOURCE_FIELDS
    schema = Struct((fields[2], Field("a", Kind.LONG), fields[0], fields[3], fields[1]))
    batch = batch_of(b'{"a":7}', None, b"x", b'{"a":8}', first=40)

    done = convert_batch(batch, at=AT, schema=schema, options=RowOptions(SOURCES))

    assert arrow_schema(schema) == done.rows.schema
    second = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    expected = [
        {
            "_kafka_offset": 40,
            "a": 7,
            "_kafka_topic": "events",
            "_kafka_timestamp": second,
            "_kafka_partition": 3,
        },
        {
            "_kafka_offset": 43,
            "a": 8,
            "_kafka_topic": "events",
            "_kafka_timestamp": second,
            "_kafka_partition": 3,
        },
    ]
    assert expected == done.rows.to_pylist()
    assert ({"tombstone": 1}, [42]) == (done.filtered, [r.offset for r in done.rejects])


def test_key_and_headers_may_be_columns_too() -> None:
    schema = Struct((Field("a", Kind.LONG), Field("k", Kind.BINARY), Field("h", HEADERS)))
    options = RowOptions({"key": "k", "headers": "h"})
    batch = batch_of(b'{"a":1}')
    headers = pa.array([[{"key": "x", "value": b"1"}]], arrow_type(HEADERS))

    plain = convert_batch(batch, at=AT, schema=schema, options=options)
    assert [{"a": 1, "k": b"k", "h": None}] == plain.rows.to_pylist()

    with_headers = batch.append_column("headers", headers)
    done = convert_batch(with_headers, at=AT, schema=schema, options=options)
    assert [{"a": 1, "k": b"k", "h": [{"key": "x", "value": b"1"}]}] == done.rows.to_pylist()


def test_a_source_column_the_table_has_not_is_left_out() -> None:
    done = convert_batch(batch_of(b'{"a":1}'), at=AT, schema=LONG, options=RowOptions(SOURCES))

    assert [{"a": 1}] == done.rows.to_pylist()


def test_a_record_cannot_write_a_source_column() -> None:
    schema = Struct((Field("a", Kind.LONG), *SOURCE_FIELDS))

    done = convert_batch(
        batch_of(b'{"_kafka_offset":99}'), at=AT, schema=schema, options=RowOptions(SOURCES)
    )

    assert ["P361"] == [reject.code for reject in done.rejects]


def test_a_source_column_of_a_wrong_type_is_the_specs_fault() -> None:
    schema = Struct((Field("_kafka_offset", Kind.BOOLEAN), Field("_kafka_topic", Kind.LONG)))

    with pytest.raises(InvalidError, match="_kafka_topic is a long") as caught:
        convert_batch(
            batch_of(b"{}"), at=AT, schema=schema, options=RowOptions({"topic": "_kafka_topic"})
        )
    assert "P399" == caught.value.code


@pytest.mark.parametrize("stamp", [2**62, -(2**62), 253402300800000, -62135596800001])
def test_a_time_stamp_no_table_can_hold_refuses_the_record(stamp: int) -> None:
    schema = Struct((Field("a", Kind.LONG), *SOURCE_FIELDS))
    batch = batch_of(b'{"a":1}', None, stamp=stamp)

    done = convert_batch(batch, at=AT, schema=schema, options=RowOptions(SOURCES))

    assert [(0, "P364")] == [(reject.offset, reject.code) for reject in done.rejects]
    assert {"tombstone": 1} == done.filtered


def test_a_missing_time_stamp_is_null() -> None:
    schema = Struct((Field("a", Kind.LONG), *SOURCE_FIELDS))

    done = convert_batch(
        batch_of(b"{}", stamp=None), at=AT, schema=schema, options=RowOptions(SOURCES)
    )

    assert [None] == done.rows.column("_kafka_timestamp").to_pylist()


@pytest.mark.parametrize("values", [(), (None,), (b"x",)])
def test_a_batch_without_rows_gives_no_rows_of_the_tables_schema(values: Any) -> None:
    schema = Struct((Field("a", Kind.LONG), Field("b", List(Kind.DOUBLE)), *SOURCE_FIELDS))

    done = convert_batch(batch_of(*values), at=AT, schema=schema, options=RowOptions(SOURCES))

    assert (arrow_schema(schema), 0) == (done.rows.schema, len(done.rows))


def test_a_table_may_have_source_columns_only() -> None:
    batch = batch_of(b"{}", b'{"x":1}', b'{"x":null}')

    done = convert_batch(
        batch,
        at=AT,
        schema=Struct((SOURCE_FIELDS[2],)),
        options=RowOptions({"offset": "_kafka_offset"}),
    )

    assert [0, 2] == done.rows.column("_kafka_offset").to_pylist()
    assert [(1, "P361")] == [(reject.offset, reject.code) for reject in done.rejects]


def test_a_slice_of_a_batch_converts_like_a_batch() -> None:
    batch = batch_of(b'{"a":1}', b'{"a":2}', b'{"a":"\xc3\xa9"}', b'{"a":4}', b'{"a":5}')

    done = convert_batch(batch.slice(1, 3), at=AT, schema=LONG, options=RowOptions({}))

    assert [2, 4] == done.rows.column("a").to_pylist()
    assert [2] == [reject.offset for reject in done.rejects]


def test_a_required_column_refuses_records_without_it() -> None:
    schema = Struct((Field("a", Kind.LONG, required=True),))
    batch = batch_of(b'{"a":1}', b"{}", b'{"a":null}', b'{"a":2}')

    done = convert_batch(batch, at=AT, schema=schema, options=RowOptions({}))

    assert [1, 2] == done.rows.column("a").to_pylist()
    assert [(1, "P362"), (2, "P362")] == [(r.offset, r.code) for r in done.rejects]
    assert "a: a required column is null or missing" == done.rejects[0].message


def test_unknown_fields_are_dropped_and_counted_where_the_spec_says_so() -> None:
    schema = Struct(
        (
            Field("a", Kind.LONG),
            Field("s", Struct((Field("x", Kind.LONG),))),
            Field("l", List(Struct((Field("x", Kind.LONG),)))),
        )
    )
    values = [
        b'{"a":1,"n":1,"s":{"x":1,"y":"q"},"l":[{"x":1,"z":true},{"z":false}]}',
        b'{"a":2,"n":null,"s":{"y":{}},"l":[{"z":null}]}',
        b'{"a":3,"n":{"deep":[1]}}',
    ]
    expected = {"n": 2, "s.y": 2, "l[].z": 2}

    for repeated in (1, 500):
        batch = batch_of(*values * repeated)
        options = RowOptions({}, columns="drop_value")
        done = convert_batch(batch, at=AT, schema=schema, options=options)
        assert () == done.rejects
        assert [1, 2, 3] * repeated == done.rows.column("a").to_pylist()
        assert {path: count * repeated for path, count in expected.items()} == done.dropped


def test_unknown_fields_that_say_nothing_are_no_reason_to_refuse_a_record() -> None:
    values = [b'{"a":1,"n":null}', b'{"a":2,"n":{}}', b'{"a":3,"n":[null,{"m":[]}]}', b'{"n":[0]}']

    done = convert_batch(batch_of(*values), at=AT, schema=LONG, options=RowOptions({}))

    assert [1, 2, 3] == done.rows.column("a").to_pylist()
    assert {"n": 2} == done.dropped
    assert [(3, "P361", "n: the table has no such column")] == [
        (reject.offset, reject.code, reject.message) for reject in done.rejects
    ]


def test_values_that_do_not_fit_become_null_where_the_spec_says_so() -> None:
    inner = Struct((Field("x", Kind.LONG, required=True), Field("y", Kind.LONG)))
    schema = Struct((Field("a", Kind.LONG), Field("s", inner), Field("l", List(Kind.DATE))))
    values = [
        b'{"a":"one"}',
        b'{"a":1,"s":{"x":1,"y":"q"}}',
        b'{"a":2,"s":{"x":"q","y":"q"},"l":["2026-11-01","soon"]}',
        b'{"a":3,"s":{"x":1,"unknown":1}}',
    ]

    done = convert_batch(
        batch_of(*values), at=AT, schema=schema, options=RowOptions({}, types="drop_value")
    )

    assert [None, 1, 2] == done.rows.column("a").to_pylist()
    assert [None, {"x": 1, "y": None}, None] == done.rows.column("s").to_pylist()
    assert {"a": 1, "s.y": 1, "s": 1, "l[]": 1} == done.dropped
    assert [(3, "P361")] == [(reject.offset, reject.code) for reject in done.rejects]


def test_paths_of_dropped_values_are_bounded_whatever_a_record_holds() -> None:
    bomb = b"{" + b",".join(b'"k%d":1' % i for i in range(5000)) + b"}"

    done = convert_batch(
        batch_of(bomb, b'{"a":1}'), at=AT, schema=LONG, options=RowOptions({}, columns="drop_value")
    )

    assert [None, 1] == done.rows.column("a").to_pylist()
    assert (1001, 5000) == (len(done.dropped), sum(done.dropped.values()))


def test_many_bad_records_among_many_good_ones_keep_their_order_and_offsets() -> None:
    values = [b'{"a":%d}' % i for i in range(5000)]
    bad = {17 * k: v for k, v in enumerate([b"{", b'{"a":1,"a":2}', b'{"a":1.5}', b""] * 70)}
    odd = {17 * k + 1: b'{"a":"%d.0"}' % (17 * k + 1) for k in range(280)}
    for position, value in {**bad, **odd}.items():
        values[position] = value

    done = convert_batch(batch_of(*values), at=AT, schema=LONG, options=RowOptions({}))

    assert [i for i in range(5000) if i not in bad] == done.rows.column("a").to_pylist()
    assert sorted(bad) == [reject.offset for reject in done.rejects]
    assert ["P302", "P305", "P365", "P301"] * 70 == [reject.code for reject in done.rejects]


def test_more_records_than_a_block_takes_land_in_order() -> None:
    values = [b'{"a":%d}' % i for i in range(120_001)]
    values[70_000] = b"{}x"

    done = convert_batch(batch_of(*values), at=AT, schema=LONG, options=RowOptions({}))

    assert [i for i in range(120_001) if i != 70_000] == done.rows.column("a").to_pylist()
    assert [70_000] == [reject.offset for reject in done.rejects]


def test_large_doubles_are_parsed_once_unless_they_may_be_integers() -> None:
    schema = Struct((Field("d", Kind.DOUBLE), Field("l", List(Kind.DOUBLE))))
    values = [
        b'{"d":6.02e23}',
        b'{"d":9007199254740993}',
        b'{"l":[1e300,9007199254740993]}',
        b'{"l":[1e300,9007199254740994]}',
    ]

    done = convert_batch(batch_of(*values), at=AT, schema=schema, options=RowOptions({}))

    assert [1, 2] == [reject.offset for reject in done.rejects]
    assert [6.02e23, None] == done.rows.column("d").to_pylist()
    assert [None, [1e300, 9007199254740994.0]] == done.rows.column("l").to_pylist()


def test_names_that_msgspec_cannot_carry_are_columns_all_the_same() -> None:
    schema = Struct((Field('q"\\\n', Kind.LONG), Field("é.b c", Kind.STRING)))
    values = [b'{"q\\"\\\\\\n":1}', b"{", b'{"\xc3\xa9.b c":"x"}']

    done = convert_batch(batch_of(*values), at=AT, schema=schema, options=RowOptions({}))

    assert [1, None] == done.rows.column(0).to_pylist()
    assert [None, "x"] == done.rows.column(1).to_pylist()


@pytest.mark.parametrize("spoilt", [(), (b"no JSON",)], ids=["fast path", "slow path"])
def test_an_empty_text_is_refused_where_the_format_reads_it_as_null(
    spoilt: tuple[bytes, ...],
) -> None:
    schema = Struct((Field("place", Kind.STRING), Field("note", Kind.STRING)))
    values = [
        b'{"place":"here","note":""}',
        b'{"place":"","note":"x"}',
        b'{"place":null}',
        b'{"note":"y"}',
        b'{"place":" "}',
        *spoilt,
    ]
    options = RowOptions({}, not_empty=("place", "absent"))

    done = convert_batch(batch_of(*values), at=AT, schema=schema, options=options)

    assert ["here", None, None, " "] == done.rows.column("place").to_pylist()
    assert ["", None, "y", None] == done.rows.column("note").to_pylist()
    assert (1, "convert", "P372") == (
        done.rejects[0].offset,
        done.rejects[0].stage,
        done.rejects[0].code,
    )
    assert 1 + len(spoilt) == len(done.rejects)
    assert done.rejects[0].message.startswith("place: an empty text")


def test_an_empty_text_becomes_null_where_values_that_do_not_fit_do() -> None:
    inner = Struct((Field("place", Kind.STRING),))
    schema = Struct((Field("place", Kind.STRING), Field("s", inner), Field("n", Kind.LONG)))
    options = RowOptions({}, types="drop_value", not_empty=("place", "n"))
    values = batch_of(b'{"place":"","s":{"place":""},"n":0}')

    done = convert_batch(values, at=AT, schema=schema, options=options)

    assert [{"place": None, "s": {"place": ""}, "n": 0}] == done.rows.to_pylist()
    assert {"place": 1} == done.dropped


def test_an_empty_key_is_refused_where_the_format_reads_it_as_null() -> None:
    schema = Struct((Field("k", Kind.STRING), Field("a", Kind.LONG)))
    keys = [b"one", b"", None]
    batch = batch_of(*[b'{"a":1}'] * 3)
    batch = batch.set_column(2, "key", pa.array(keys, pa.binary()))
    options = RowOptions({"key": "k"}, not_empty=("k",))

    done = convert_batch(batch, at=AT, schema=schema, options=options)

    assert ["one", None] == done.rows.column("k").to_pylist()
    assert [(1, "P372")] == [(reject.offset, reject.code) for reject in done.rejects]


def test_a_decimal_of_more_digits_than_python_keeps_by_itself_has_exact_bounds() -> None:
    """`-Decimal` rounds to 28 digits: -1 would seem to lie within 29 nines after the point."""
    done = convert_batch(
        batch_of(b'{"a": -1}', b'{"a": 0.5}'),
        at=AT,
        schema=Struct((Field("a", Decimal(29, 29)),)),
        options=RowOptions(source_columns={}),
    )

    assert [(0, "P364")] == [(each.offset, each.code) for each in done.rejects]
    assert ["0.50000000000000000000000000000"] == [str(v) for v in done.rows["a"].to_pylist()]
