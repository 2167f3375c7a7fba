"""Splits and builds Arrow arrays, by numpy where Arrow has no kernel for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


def mask_of(array: pa.Array) -> Mask:
    """Return booleans without nulls as numpy's."""
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask


def bounds_of(values: pa.Array) -> npt.NDArray[np.int32]:
    """Return where texts or bytes begin in their buffer, and where the last one ends."""
    offsets = values.buffers()[1]
    return np.frombuffer(offsets, np.int32, count=len(values) + 1, offset=4 * values.offset)


def lengths_of(values: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return the length in bytes of each value, 0 of a null."""
    lengths: npt.NDArray[np.int32] = pc.binary_length(values).fill_null(0).to_numpy()
    return lengths


def counts_of(values: pa.BinaryArray, what: bytes) -> npt.NDArray[np.int64]:
    """Count how often some bytes occur in each value; the count of a null has no meaning."""
    if not len(values) or values.buffers()[2] is None:
        return np.zeros(len(values), np.int64)
    ends = bounds_of(values)
    held = np.frombuffer(values.buffers()[2], np.uint8)[ends[0] : ends[-1]]
    stop = max(len(held) - len(what) + 1, 0)
    found = np.ones(stop, np.bool_)
    for place, byte in enumerate(what):
        found &= held[place : place + stop] == byte
    places = np.flatnonzero(found) + ends[0]
    last = np.searchsorted(places, ends[1:] - len(what) + 1)
    counts: npt.NDArray[np.int64] = np.maximum(last - np.searchsorted(places, ends[:-1]), 0)
    return counts


def validity_of(array: pa.Array) -> Mask:
    """Return which values are not null."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return np.array(mask_of(array.is_valid()))


def validity_bits(array: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap, from the first value on; None when no value is null."""
    return array.is_valid().buffers()[1] if array.null_count else None


def offsets_of(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return the offsets of lists of some lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def spread(array: pa.Array, present: Mask) -> pa.Array:
    """Put nulls where nothing is present."""
    if present.all():
        return array
    if not len(array):
        return pa.nulls(len(present), array.type)
    index = np.maximum(np.cumsum(present) - 1, 0)
    return array.take(pa.array(index, mask=~present))


def struct_array(
    names: Sequence[str], members: Sequence[pa.Array], count: int, mask: pa.Array | None = None
) -> pa.StructArray:
    """Make structs of members, `count` of them also where there are none; null where `mask` is."""
    if not members:
        return pa.array([{}] * count, pa.struct([]))
    fields = [pa.field(name, each.type) for name, each in zip(names, members, strict=True)]
    return pa.StructArray.from_arrays(members, fields=fields, mask=mask)


def list_array(lengths: npt.NDArray[Any], items: pa.Array, valid: Any = None) -> pa.ListArray:
    """Make lists of some lengths of items; `valid` is the buffer of those that are not null."""
    buffers = [valid, pa.py_buffer(offsets_of(lengths))]
    kind = pa.list_(pa.field("element", items.type))
    return pa.Array.from_buffers(kind, len(lengths), buffers, children=[items])
