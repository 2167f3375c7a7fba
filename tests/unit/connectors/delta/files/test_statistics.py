import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal as Exact

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.delta.files.statistics import Indexed, statistics_json
from penstock.connectors.delta.schema.types import arrow_schema
from penstock.core.schema import Decimal, Field, Kind, List, Map, Struct
from penstock.files.texts import beginnings, texts_in


def statistics_of(schema, rows, *, indexed=None, with_nan=(), group=1000):
    table = pa.Table.from_pylist(rows, schema=arrow_schema(schema))
    footer = footer_of(table, group)
    texts = beginnings(texts_in(table.schema), table)
    return json.loads(statistics_json(footer, schema, indexed or Indexed(), {*with_nan}, texts))


def footer_of(table, group=1000):
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group)
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


def column(kind, values, **given_):
    schema = Struct((Field("c", kind),))
    found = statistics_of(schema, [{"c": value} for value in values], **given_)
    names = ("minValues", "maxValues", "nullCount")
    low, high, nulls = (found.get(name, {}).get("c") for name in names)
    return low, high, nulls


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


def test_all_that_readers_ask_bounds_of_has_them():
    assert (False, True, 0) == column(Kind.BOOLEAN, [True, False])
    assert (-1.5, "Infinity", 0) == column(Kind.DOUBLE, [-1.5, float("inf")])
    assert ("-Infinity", 1.0, 0) == column(Kind.FLOAT, [1.0, float("-inf")])
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001
    cut, whole = "9999-12-31T23:59:59.999", "9999-12-31T23:59:59.999999"
    assert (cut, whole, 0) == column(Kind.TIMESTAMP, [last])
    assert (f"{cut}Z", f"{whole}Z", 0) == column(Kind.TIMESTAMPTZ, [last.replace(tzinfo=UTC)])


def test_decimals_are_written_with_all_their_digits():
    most = Exact("9999999999999999999999999999.9999999999")
    schema = Struct((Field("c", Decimal(38, 10)),))
    least = Exact(f"-{most}")
    footer = footer_of(pa.table({"c": pa.array([most, least], pa.decimal128(38, 10))}))
    text = statistics_json(footer, schema, Indexed(), set(), {})

    assert f'"minValues":{{"c":{least}}},"maxValues":{{"c":{most}}}' in text


@pytest.mark.parametrize("group", [1, 1000])
def test_texts_too_long_for_a_footer_have_bounds(group):
    texts = ["m", "a" * 10_000, None, "z" * 33 + "y" * 10_000]

    assert ("a" * 32, "z" * 32 + LAST, 1) == column(Kind.STRING, texts, group=group)


def test_an_upper_bound_is_cut_where_a_character_can_be_followed():
    text = "a" + LAST * 40 + "b" * 10_000

    assert ("a" + LAST * 31, "a" + LAST * 41, 0) == column(Kind.STRING, [text])


def test_a_file_without_all_bounds_reports_none():
    """deltalake's data sets take one that is missing for null, and leave all rows out."""
    schema = Struct((Field("id", Kind.LONG), Field("c", Kind.DOUBLE), Field("s", Kind.STRING)))
    nan = statistics_of(schema, [{"id": 1, "c": float("nan"), "s": "a"}], with_nan=["c"])
    last = statistics_of(schema, [{"id": 1, "c": 1.0, "s": LAST * 40}])

    assert {"numRecords": 1, "nullCount": {"id": 0, "c": 0, "s": 0}} == nan == last


def test_what_no_reader_asks_bounds_of_may_lack_them():
    inner = Struct((Field("x", Kind.DOUBLE),))
    fields = (Field("id", Kind.LONG), Field("b", Kind.BINARY), Field("n", Kind.LONG))
    schema = Struct((*fields, Field("in", inner)))
    row = {"id": 1, "b": b"a", "n": None, "in": {"x": float("nan")}}

    found = statistics_of(schema, [row], with_nan=["in.x"])
    assert {"id": 1, "in": {}} == found["minValues"] == found["maxValues"]


LAST = "\U0010ffff"


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_strings_lie_within_their_bounds(values):
    low, high, _ = column(Kind.STRING, values)

    assert (low is None) == (high is None)
    assert low is None or all(low <= value for value in values)
    assert high is None or all(value <= high for value in values)
    assert low is None or len(low) <= 32 or low == high


def test_the_name_of_a_topic_that_all_rows_have_is_kept_whole():
    topic = "shop-of-many-words.public.orders-and-returns"

    assert (topic, topic, 0) == column(Kind.STRING, [topic, topic])
    assert ("a" * 32, "a" * 32 + LAST, 0) == column(Kind.STRING, ["a" * 250])
    assert (topic[:32], topic[:32] + LAST, 0) == column(Kind.STRING, [topic, topic + "x"])


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
        "minValues": {"inner": {"a": 4, "b": 5.0}, "last": 6},
        "maxValues": {"inner": {"a": 4, "b": 5.0}, "last": 6},
        "nullCount": {"inner": {"a": 0, "b": 0}, "last": 0},
    } == statistics_of(schema, [row])


def test_a_list_and_a_map_count_as_one_column_each():
    fields = [Field("many", List(Kind.LONG)), Field("pairs", Map(Kind.STRING, Kind.LONG))]
    schema = Struct((*fields, *(Field(f"c{n}", Kind.LONG) for n in range(31))))
    row = {"many": [1], "pairs": [("k", 1)], **{f"c{n}": n for n in range(31)}}

    assert [f"c{n}" for n in range(30)] == list(statistics_of(schema, [row])["minValues"])


def test_only_indexed_columns_have_statistics():
    schema = Struct(tuple(Field(f"c{n}", Kind.LONG) for n in range(40)))
    row = dict.fromkeys(schema.names, 1)

    assert 32 == len(statistics_of(schema, [row])["minValues"])
    assert 40 == len(statistics_of(schema, [row], indexed=Indexed(-1))["minValues"])
    assert ["c39"] == list(statistics_of(schema, [row], indexed=Indexed(32, ("c39",)))["minValues"])
