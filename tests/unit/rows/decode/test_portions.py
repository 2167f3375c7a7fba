"""A batch is cut into portions whose records become no more than memory can hold."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, List, Map, Schema, Struct
from penstock.rows.arrow_arrays import counts_of
from penstock.rows.convert.batch import convert_batch
from penstock.rows.decode import portions as room
from penstock.rows.decode.decoder import ReaderCache, decode_values
from penstock.rows.decode.portions import Growth, portions
from penstock.rows.options import RowOptions

MOST = 1000
AT = TopicPartition("AAAAAAAAAAAAAAAAAAAAAQ", 0, "orders")
TEXT = Struct((Field("s", Kind.STRING),))
ITEM = Struct(tuple(Field(f"c{number}", Kind.LONG) for number in range(10)))
ITEMS = Struct((Field("items", List(ITEM)),))
PACKED = RowOptions({}, compression="gzip", record_bytes_max=5000)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "PORTION_BYTES_MAX", MOST)


def batch(values: Sequence[bytes | None]) -> pa.RecordBatch:
    columns = {
        "offset": pa.array(range(len(values)), pa.int64()),
        "timestamp": pa.array([0] * len(values), pa.timestamp("ms", "UTC")),
        "key": pa.array([None] * len(values), pa.binary()),
        "value": pa.array(values, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def cut(values: Sequence[bytes | None], schema: Schema, options: RowOptions) -> list[list[int]]:
    parts = portions(batch(values), [Growth.of(schema, options)])
    return [part.column("offset").to_pylist() for part in parts]


def unpacked_bytes(part: pa.RecordBatch, options: RowOptions) -> int:
    valued = np.flatnonzero(part.column("value").is_valid().to_numpy(zero_copy_only=False))
    groups = decode_values(part, valued, options, ReaderCache(), {}).groups
    return sum(len(value) for group in groups for value in group.values.to_pylist())


def text(size: int) -> bytes:
    return json.dumps({"s": "a" * size}).encode()


def test_packed_values_end_a_portion_by_what_they_unpack_to() -> None:
    values = [gzip.compress(text(size)) for size in (400, 400, 400, 900, 10, 3000, 10)]

    assert [[0, 1], [2], [3, 4], [5], [6]] == cut(values, TEXT, PACKED)


def test_plain_values_end_a_portion_by_their_bytes() -> None:
    assert [[0, 1], [2]] == cut([text(400)] * 3, TEXT, RowOptions({}))


def test_objects_in_a_list_weigh_what_they_take_in_each_column() -> None:
    eight = b'{"items": [' + b",".join([b"{}"] * 8) + b"]}"  # 8 items of 10 columns of 8 bytes

    assert [[0], [1], [2]] == cut([eight] * 3, ITEMS, RowOptions({}))
    assert [[0, 1, 2]] == cut([b'{"items": []}'] * 3, ITEMS, RowOptions({}))


def test_objects_are_counted_within_compressed_values() -> None:
    eight = gzip.compress(b'{"items": [' + b",".join([b"{}"] * 8) + b"]}")

    assert [[0], [1], [2]] == cut([eight] * 3, ITEMS, PACKED)


def test_objects_in_a_map_weigh_like_those_in_a_list() -> None:
    mapped = Struct((Field("m", Map(Kind.STRING, ITEM)),))
    eight = json.dumps({"m": {str(number): {} for number in range(8)}}).encode()

    assert [[0], [1]] == cut([eight] * 2, mapped, RowOptions({}))


@pytest.mark.parametrize("format_", ["avro", "protobuf"])
def test_items_of_formats_without_text_are_reckoned_from_bytes(format_: str) -> None:
    options = RowOptions({}, format=format_)

    assert [[0], [1]] == cut([b"\0" * 20] * 2, ITEMS, options)
    assert [[0, 1]] == cut([b"\0" * 20] * 2, TEXT, options)


def test_a_wide_row_weighs_its_columns() -> None:
    wide = Struct(tuple(Field(f"c{number}", Kind.LONG) for number in range(100)))

    assert [[0], [1]] == cut([b"{}"] * 2, wide, RowOptions({}))


def test_the_heaviest_table_of_a_lane_counts() -> None:
    growths = [Growth.of(TEXT, RowOptions({})), Growth.of(TEXT, PACKED)]
    values = [gzip.compress(text(900))] * 2

    assert [1, 1] == [len(part) for part in portions(batch(values), growths)]


def test_a_value_of_many_members_is_unpacked_to_know_its_size() -> None:
    many = gzip.compress(b'{"s":"') + gzip.compress(b"a" * 900) + gzip.compress(b'"}')

    assert [[0], [1]] == cut([many, many], TEXT, PACKED)


def test_a_value_that_lies_about_its_size_is_refused_and_holds_nothing() -> None:
    packed = gzip.compress(text(3000))
    lies = packed[:-4] + b"\1\0\0\0"
    values = [lies] * 4

    assert [[0, 1, 2, 3]] == cut(values, TEXT, PACKED)
    converted = convert_batch(batch(values), at=AT, schema=TEXT, options=PACKED)
    assert ["P313"] * 4 == [reject.code for reject in converted.rejects]


VALUES = st.one_of(
    st.none(),
    st.binary(max_size=30),
    st.integers(0, 6000).map(lambda size: gzip.compress(text(size))),
    st.integers(0, 6000).map(lambda size: gzip.compress(b"") + gzip.compress(text(size))),
    st.integers(0, 6000).map(lambda size: gzip.compress(text(size))[:-9]),
)


@given(st.lists(VALUES, max_size=20))
def test_each_record_is_in_one_portion_and_none_unpacks_to_more(values: list[bytes | None]) -> None:
    parts = list(portions(batch(values), [Growth.of(TEXT, PACKED)]))

    offsets = [offset for part in parts for offset in part.column("offset").to_pylist()]
    assert [*range(len(values))] == offsets
    for part in parts:
        assert len(part) == 1 or unpacked_bytes(part, PACKED) <= MOST


@given(
    st.lists(st.none() | st.binary(max_size=6).map(lambda b: b.replace(b"a", b"{{}"))), st.data()
)
def test_bytes_are_counted_in_each_value(values: list[bytes | None], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    array = pa.array(values, pa.binary())[start:]

    for what in (b"{", b"{}"):
        expected = [None if value is None else value.count(what) for value in values[start:]]
        found = zip(expected, counts_of(array, what).tolist(), strict=True)
        assert all(count is None or count == actual for count, actual in found)
