import datetime as dt
import io
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform

from penstock.connectors.iceberg.schema.partition_values import least_values, splitter, transform_of
from penstock.core.statistics import Fault, FileStatistics, Leaf, PartitionValue, mismatches
from penstock.files.contents import contents_of

MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))  # noqa: DTZ001
NANOS = st.integers(-(2**63) + 2, 2**63 - 2)
KINDS = {
    "long": (iceberg.LongType(), pa.int64(), st.integers(-(2**63) + 1000, 2**63 - 1)),
    "int": (iceberg.IntegerType(), pa.int32(), st.integers(-(2**31) + 1000, 2**31 - 1)),
    "string": (iceberg.StringType(), pa.string(), st.text(max_size=9)),
    "binary": (iceberg.BinaryType(), pa.binary(), st.binary(max_size=9)),
    "date": (iceberg.DateType(), pa.date32(), st.dates()),
    "timestamp": (iceberg.TimestampType(), pa.timestamp("us"), MOMENTS),
    "nanos": (iceberg.TimestamptzNanoType(), pa.timestamp("ns", "UTC"), NANOS),
    "decimal": (
        iceberg.DecimalType(9, 2),
        pa.decimal128(9, 2),
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    ),
}
FITTING = {
    "bucket[7]": set(KINDS),
    "truncate[3]": {"long", "int", "string", "binary", "decimal"},
    "year": {"date", "timestamp", "nanos"},
    "month": {"date", "timestamp", "nanos"},
    "day": {"date", "timestamp", "nanos"},
    "hour": {"timestamp", "nanos"},
    "identity": {"long", "string", "decimal"},
}
PAIRS = [(text, kind) for text, kinds in FITTING.items() for kind in sorted(kinds)]


def split(text, kind, values):
    type_, arrow, _ = KINDS[kind]
    schema = Schema(
        iceberg.NestedField(1, "v", type_), iceberg.NestedField(2, "n", iceberg.LongType())
    )
    transform = parse_transform(text)
    spec = PartitionSpec(PartitionField(1, 1000, transform, "p"))
    batch = pa.record_batch({"v": pa.array(values, arrow), "n": pa.array(range(len(values)))})
    pieces = list(splitter(spec, schema)(batch))
    return [(key[0], piece["n"].to_pylist()) for key, piece in pieces], transform.transform(type_)


@pytest.mark.parametrize(("text", "kind"), PAIRS, ids=[f"{t}-{k}" for t, k in PAIRS])
@given(data=st.data())
@settings(max_examples=25)
def test_values_are_the_librarys_and_rows_keep_their_order(text, kind, data):
    values = data.draw(st.lists(st.none() | KINDS[kind][2], min_size=1, max_size=20))
    pieces, expected = split(text, kind, values)

    wanted: dict = {}
    for number, value in enumerate(values):
        wanted.setdefault(expected(value), []).append(number)
    assert wanted == dict(pieces)
    assert len(wanted) == len(pieces)


def test_a_batch_without_partitioning_is_passed_on_as_it_is():
    schema = Schema(iceberg.NestedField(1, "v", iceberg.LongType()))
    batch = pa.record_batch({"v": pa.array([1, 2])})
    ((key, piece),) = splitter(PartitionSpec(), schema)(batch)

    assert ((), True) == (key, piece is batch)


def test_several_fields_split_by_their_combinations():
    schema = Schema(
        iceberg.NestedField(1, "a", iceberg.LongType()),
        iceberg.NestedField(2, "b", iceberg.StringType()),
    )
    spec = PartitionSpec(
        PartitionField(1, 1000, parse_transform("truncate[10]"), "x"),
        PartitionField(2, 1001, parse_transform("identity"), "b"),
    )
    batch = pa.record_batch({"a": pa.array([1, 12, 3, None]), "b": pa.array(["x", "x", "y", None])})
    pieces = {key: piece["a"].to_pylist() for key, piece in splitter(spec, schema)(batch)}

    assert {(0, "x"): [1], (10, "x"): [12], (0, "y"): [3], (None, None): [None]} == pieces


def test_a_field_without_meaning_needs_no_column():
    """Format version 1 leaves it where a table is no longer partitioned, and its column may go."""
    schema = Schema(iceberg.NestedField(1, "v", iceberg.LongType()))
    spec = PartitionSpec(PartitionField(2, 1000, parse_transform("void"), "gone"))
    batch = pa.record_batch({"v": pa.array([1, 2])})
    ((key, piece),) = splitter(spec, schema)(batch)

    assert ((None,), True) == (key, piece is batch)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), -(2**31)),
        (pa.int64(), -(2**63)),
        (pa.decimal128(9, 2), Decimal("-9999999.99")),
        (pa.decimal128(38, 0), Decimal("-" + "9" * 38)),
    ],
)
def test_a_number_rounded_down_to_none_of_its_type_is_refused(kind, value):
    """Iceberg's Java library wraps it around, and no filter finds it."""
    types = {pa.int32(): iceberg.IntegerType(), pa.int64(): iceberg.LongType()}
    source = types.get(kind) or iceberg.DecimalType(kind.precision, kind.scale)
    schema = Schema(iceberg.NestedField(1, "n", source))
    spec = PartitionSpec(PartitionField(1, 1000, parse_transform("truncate[10]"), "n_trunc"))
    split = splitter(spec, schema)

    with pytest.raises(ValueError, match=r"below all that|does not fit"):
        list(split(pa.record_batch({"n": pa.array([value], kind)})))
    least = value + 10 if pa.types.is_integer(kind) else Decimal(0)
    assert 1 == len(list(split(pa.record_batch({"n": pa.array([least], kind)}))))


def test_the_least_values_are_those_that_truncation_keeps_in_their_types():
    place = iceberg.StructType(iceberg.NestedField(4, "zip", iceberg.IntegerType()))
    schema = Schema(
        iceberg.NestedField(1, "id", iceberg.LongType()),
        iceberg.NestedField(2, "price", iceberg.DecimalType(9, 2)),
        iceberg.NestedField(3, "place", place),
        iceberg.NestedField(5, "big", iceberg.DecimalType(38, 0)),
        iceberg.NestedField(6, "name", iceberg.StringType()),
    )
    texts = {1: "truncate[10]", 2: "truncate[10]", 4: "truncate[7]", 5: "truncate[3]"}
    fields = [
        PartitionField(source, 1000 + source, parse_transform(text), f"p{source}")
        for source, text in {**texts, 6: "truncate[2]"}.items()
    ]
    coarser = PartitionField(1, 1010, parse_transform("truncate[1000]"), "p1_coarse")
    others = PartitionField(2, 1011, parse_transform("bucket[7]"), "p2_bucket")
    least = least_values(PartitionSpec(*fields, coarser, others), schema)

    assert {
        ("id",): Decimal(-9223372036854775000),
        ("price",): Decimal("-9999999.90"),
        ("place", "zip"): Decimal(-2147483646),
        ("big",): Decimal("-" + "9" * 38),
    } == least
    assert {} == least_values(PartitionSpec(), schema)


@pytest.mark.parametrize("width", [1, 2, 7, 10, 999_999_999])
@pytest.mark.parametrize(
    ("source", "kind", "lowest"),
    [
        (iceberg.IntegerType(), pa.int32(), -(2**31)),
        (iceberg.LongType(), pa.int64(), -(2**63)),
        (iceberg.DecimalType(9, 2), pa.decimal128(9, 2), 1 - 10**9),
        (iceberg.DecimalType(38, 4), pa.decimal128(38, 4), 1 - 10**38),
    ],
)
def test_the_least_value_is_split_and_the_next_lower_one_is_not(source, kind, lowest, width):
    schema = Schema(iceberg.NestedField(1, "n", source))
    spec = PartitionSpec(PartitionField(1, 1000, parse_transform(f"truncate[{width}]"), "p"))
    ((path, least),) = least_values(spec, schema).items()
    split = splitter(spec, schema)
    scale = kind.scale if pa.types.is_decimal(kind) else 0

    def batch(value):
        exact = Decimal((value < 0, Decimal(value).as_tuple().digits, -scale))
        return pa.record_batch({"n": pa.array([exact if scale else value], kind)})

    unscaled = int(least.scaleb(scale, Context(prec=60)))
    assert ("n",) == path
    assert 1 == len(list(split(batch(unscaled))))
    if unscaled > lowest:
        with pytest.raises(ValueError, match=r"below all that|does not fit"):
            list(split(batch(unscaled - 1)))


@pytest.mark.parametrize(
    ("source", "kind", "lowest", "wrapped"),
    [
        (iceberg.IntegerType(), pa.int32(), -(2**31), 2**31 - 2),
        (iceberg.DecimalType(9, 2), pa.decimal128(9, 2), Decimal("-9999999.99"), Decimal("1.00")),
    ],
)
def test_where_another_writer_wrapped_a_number_around_an_audit_finds_it(
    source, kind, lowest, wrapped
):
    schema = Schema(iceberg.NestedField(1, "n", source))
    derived = transform_of(PartitionField(1, 1000, parse_transform("truncate[10]"), "t"), schema)
    stated = FileStatistics(
        "f", partition=(PartitionValue("t", Leaf("n", ("n",)), wrapped, derived),)
    )
    file = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array([lowest], kind)}), file)
    (found,) = mismatches(stated, contents_of(file, stated))

    assert (Fault.PARTITION, "t", str(wrapped)) == (found.fault, found.column, found.stated)
