import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal as Exact

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.delta.schemas import arrow_schema
from penstock.connectors.delta.statistics import Indexed, statistics_json
from penstock.core.schema import Decimal, Field, Kind, List, Map, Struct


def told(schema, rows, *, indexed=None, with_nan=(), group=1000):
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows, schema=arrow_schema(schema))
    pq.write_table(table, sink, row_group_size=group)
    footer = pq.read_metadata(io.BytesIO(sink.getvalue()))
    return json.loads(statistics_json(footer, schema, indexed or Indexed(), frozenset(with_nan)))


def column(kind, values, **given_):
    schema = Struct((Field("c", kind),))
    found = told(schema, [{"c": value} for value in values], **given_)
    return found["minValues"].get("c"), found["maxValues"].get("c"), found["nullCount"].get("c")


def test_bounds_and_nulls_over_row_groups():
    assert (-3, 9, 2) == column(Kind.LONG, [5, None, -3, 9, None], group=1)
    assert ("2024-01-01", "2024-01-02", 0) == column(
        Kind.DATE, [date(2024, 1, 2), date(2024, 1, 1)]
    )
    assert (-1.5, 12.25, 0) == column(Decimal(9, 2), [Exact("12.25"), Exact("-1.50")])


def test_a_column_of_nulls_has_a_count_and_no_bounds():
    assert (None, None, 2) == column(Kind.STRING, [None, None])


def test_times_are_cut_down_below_and_up_above():
    moment = datetime(2024, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)

    assert ("2024-01-01T00:00:00.123Z", "2024-01-01T00:00:00.124Z", 0) == column(
        Kind.TIMESTAMPTZ, [moment]
    )
    assert ("2024-01-01T00:00:00.123", "2024-01-01T00:00:00.123", 0) == column(
        Kind.TIMESTAMP, [moment.replace(tzinfo=None, microsecond=123_000)]
    )


def test_what_cannot_be_told_exactly_is_left_out():
    assert (None, None, 0) == column(Kind.BINARY, [b"a"])
    assert (None, None, 0) == column(Kind.BOOLEAN, [True])
    assert (None, None, 0) == column(Decimal(30, 2), [Exact(1)])
    assert (None, None, 0) == column(Kind.DOUBLE, [1.0, float("inf")])
    assert (None, None, 0) == column(Kind.DOUBLE, [1.0, float("nan")], with_nan=["c"])
    assert (None, None, 0) == column(Kind.STRING, ["x" * 10_000])
    assert ("9999-12-31T23:59:59.999", None, 0) == column(
        Kind.TIMESTAMP,
        [datetime(9999, 12, 31, 23, 59, 59, 999_999)],  # noqa: DTZ001
    )


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_strings_lie_within_their_bounds(values):
    low, high, _ = column(Kind.STRING, values)

    assert all(low <= value for value in values)
    assert high is None or all(value <= high for value in values)
    assert len(low) <= 32


def test_members_of_structs_have_statistics_and_of_lists_and_maps_none():
    schema = Struct(
        (
            Field("many", List(Struct((Field("x", Kind.LONG), Field("y", Kind.LONG))))),
            Field("pairs", Map(Kind.STRING, Kind.LONG)),
            Field("inner", Struct((Field("a", Kind.LONG), Field("b", Kind.DOUBLE)))),
            Field("last", Kind.LONG),
        )
    )
    row = {
        "many": [{"x": 1, "y": 2}],
        "pairs": [("k", 3)],
        "inner": {"a": 4, "b": 5.0},
        "last": 6,
    }

    assert {
        "numRecords": 1,
        "minValues": {"inner": {"a": 4}, "last": 6},
        "maxValues": {"inner": {"a": 4}, "last": 6},
        "nullCount": {"inner": {"a": 0, "b": 0}, "last": 0},
    } == told(schema, [row])


def test_only_indexed_columns_have_statistics():
    schema = Struct(tuple(Field(f"c{n}", Kind.LONG) for n in range(40)))
    row = dict.fromkeys(schema.names, 1)

    assert 32 == len(told(schema, [row])["minValues"])
    assert 40 == len(told(schema, [row], indexed=Indexed(-1))["minValues"])
    assert ["c39"] == list(told(schema, [row], indexed=Indexed(32, ("c39",)))["minValues"])
