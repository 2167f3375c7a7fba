"""Values as bytes, in columns: what Avro's and Protobuf's binary encodings are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.arrow_arrays import lengths_of, validity_bits, validity_of
from penstock.rows.encode.json_texts import Column
from penstock.rows.encode.nesting import Cause, Misfits

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Datums:
    """The datum of each value, null where the value is. A misfit has some datum."""

    data: pa.BinaryArray
    misfits: list[Misfits] = field(default_factory=list)


def found_in(path: str, rows: npt.NDArray[np.bool_], cause: Cause) -> list[Misfits]:
    """Return the misfits of a column, if there are any."""
    return [Misfits(path, rows, cause)] if rows.any() else []


def of_members(
    values: pa.StructArray, kind: pa.StructType, write: Callable[[list[Column]], Datums]
) -> Datums:
    """Write structs by their members; where a struct is null it is no misfit, and not null yet."""
    members = [
        Column(each.name, member, each.type)
        for each, member in zip(kind, values.flatten(), strict=True)
    ]
    made, there = write(members), validity_of(values)
    data = made.data if members else pa.array([b""] * len(values), pa.binary())
    misfits = [each._replace(rows=each.rows & there) for each in made.misfits]
    return Datums(data, [each for each in misfits if each.rows.any()])


def zigzag(numbers: Numbers) -> npt.NDArray[np.uint64]:
    """Return numbers with a sign as such without: small ones stay small."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def unsigned_varints(
    numbers: npt.NDArray[np.uint64], like: pa.Array | None = None
) -> pa.BinaryArray:
    """Write numbers seven bits in a byte, the low ones first; null where `like` is."""
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(7, 64, 7):
        longer = numbers >= np.uint64(1 << bits)
        if not longer.any():
            break
        sizes += longer
    places = np.arange(int(sizes.max(initial=1)))
    groups = (numbers[:, None] >> (places * 7).astype(np.uint64)).astype(np.uint8) & np.uint8(0x7F)
    groups = np.where(places < sizes[:, None] - 1, groups | np.uint8(0x80), groups)
    return _binary(groups[places < sizes[:, None]], sizes, like)


def _binary(
    data: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64], like: pa.Array | None
) -> pa.BinaryArray:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    valid = None if like is None else validity_bits(like)
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def rows_of_bytes(data: npt.NDArray[np.uint8], like: pa.Array) -> pa.BinaryArray:
    """Make a value of each row of bytes."""
    return _binary(data.reshape(-1), np.full(len(data), data.shape[1], np.int64), like)


def nulled(data: pa.BinaryArray, values: pa.Array) -> pa.BinaryArray:
    """Return data, null where values are."""
    if not values.null_count:
        return data
    return pc.if_else(values.is_valid(), data, pa.scalar(None, pa.binary()))


def sized(data: pa.BinaryArray) -> pa.BinaryArray:
    """Write the size of each value before it."""
    sizes = unsigned_varints(lengths_of(data).astype(np.uint64))
    return pc.binary_join_element_wise(sizes, data, b"")
