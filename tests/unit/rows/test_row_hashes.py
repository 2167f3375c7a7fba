"""The sum of rows is the same for the same rows, and for no others."""

import datetime as dt
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

from penstock.rows.row_hashes import RowSum, row_hashes

SCHEMA = pa.schema(
    [
        ("int", pa.int32()),
        ("double", pa.float64()),
        ("single", pa.float32()),
        ("text", pa.string()),
        ("large", pa.large_string()),
        ("bytes", pa.binary()),
        ("fixed", pa.binary(5)),
        ("uuid", pa.uuid()),
        ("list", pa.list_(pa.int16())),
        ("struct", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("map", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("price", pa.decimal128(38, 5)),
        ("wide", pa.decimal256(60, 5)),
        ("yes", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("code", pa.dictionary(pa.int8(), pa.string())),
    ]
)


def row(number: int) -> dict[str, object]:
    """Return a row with values of all kinds, some of them null and long."""
    if number % 7 == 0:
        return dict.fromkeys(SCHEMA.names)
    return {
        "int": -number,
        "double": [math.nan, -0.0, 0.0, number / 3][number % 4],
        "single": number / 4,
        "text": "ä" * (number % 700),
        "large": f"{number}",
        "bytes": b"\0" * (number % 19),
        "fixed": f"{number:05}".encode(),
        "uuid": number.to_bytes(16, "big"),
        "list": None if number % 5 == 0 else [*range(number % 4)],
        "struct": None if number % 5 == 1 else {"a": number, "b": None if number % 3 else "z"},
        "map": [("k", [number, None]), ("", None if number % 2 else [])],
        "price": decimal.Decimal(number) / 10,
        "wide": decimal.Decimal(10) ** 50 + number,
        "yes": number % 2 == 0,
        "at": dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=number),
        "day": dt.date(1970, 1, 1) + dt.timedelta(days=number),
        "code": f"c{number % 3}",
    }


ROWS = [row(number) for number in range(1500)]
BATCH = pa.RecordBatch.from_pylist(ROWS, SCHEMA)


def test_a_row_has_its_hash_in_whatever_batch_it_lies():
    hashes = row_hashes(BATCH)
    order = np.random.default_rng(1).permutation(len(ROWS))

    pieces = [row_hashes(BATCH.slice(at, 37)) for at in range(0, len(ROWS), 37)]

    assert (hashes == np.concatenate(pieces)).all()
    assert (hashes[order] == row_hashes(BATCH.take(pa.array(order)))).all()
    assert len({*hashes.tolist()}) == len({*map(repr, ROWS)})


@pytest.mark.parametrize("name", SCHEMA.names)
def test_a_value_that_moves_to_another_row_is_seen(name):
    column = BATCH.column(name)
    turned = pa.concat_arrays([column.slice(1), column.slice(0, 1)])
    other = BATCH.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), turned)

    sums = [RowSum(), RowSum()]
    for each, batch in zip(sums, (BATCH, other), strict=True):
        each.add(batch)

    assert sums[0].rows == sums[1].rows
    assert sums[0].hashes != sums[1].hashes


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), (2.5, -2.5)),
        (pa.int64(), (1, 1 - 2**63)),
        (pa.list_(pa.float64()), ([2.5, -2.5], [-2.5, 2.5])),
    ],
    ids=str,
)
def test_values_that_differ_in_their_highest_bit_alone_are_seen_when_two_rows_swap_them(
    kind, values
):
    """Of 100 pairs of rows none has the sum that it has with its values swapped."""
    for number in range(100):
        sums = [RowSum(), RowSum()]
        for each, column in zip(sums, (values, values[::-1]), strict=True):
            ids = pa.array([number, number + 1])
            each.add(pa.record_batch([ids, pa.array(column, kind)], ["id", "value"]))
        assert sums[0].hashes != sums[1].hashes


def test_a_null_is_the_same_of_whatever_type_and_no_value_is_one():
    nulls = [pa.nulls(2, each.type) for each in SCHEMA]
    nothing = row_hashes(pa.record_batch([pa.nulls(2)], ["x"]))

    for each in nulls:
        assert (nothing == row_hashes(pa.record_batch([each], ["x"]))).all()
    for value in (0, 0.0, "", b"", [], False):
        assert nothing[0] != row_hashes(pa.record_batch([pa.array([value])], ["x"]))[0]
    for kind in (pa.struct([("a", pa.int64())]), pa.list_(pa.int64())):
        holds_null = pa.array([{"a": None}] if pa.types.is_struct(kind) else [[None]], kind)
        assert nothing[0] != row_hashes(pa.record_batch([holds_null], ["x"]))[0]


def test_each_bit_of_a_text_counts_and_so_does_its_length():
    texts = [bytes([1]) * length for length in range(530)]
    hashes = {*row_hashes(pa.record_batch([pa.array(texts)], ["x"])).tolist()}

    changed = [
        text[:at] + bytes([text[at] ^ bit]) + text[at + 1 :]
        for text in texts[:40] + texts[505:520]
        for at in range(len(text))
        for bit in (1, 128)
    ]
    others = {*row_hashes(pa.record_batch([pa.array(changed)], ["x"])).tolist()}

    assert len(texts) == len(hashes)
    assert len(changed) == len(others)
    assert hashes.isdisjoint(others)


def test_what_lies_under_a_null_does_not_count():
    values = pa.array([1, 2, 3])
    hidden = pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(b"\x05"), values.buffers()[1]])

    assert (
        row_hashes(pa.record_batch([pa.array([1, None, 3])], ["x"]))
        == row_hashes(pa.record_batch([hidden], ["x"]))
    ).all()
