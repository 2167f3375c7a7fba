"""A block of Avro datums of one schema becomes Arrow columns, all records at once.

Each record has a cursor. Each field is read for all records by a few numpy steps, which move the
cursors. So a damaged datum spoils no other, unlike in a container, where bytes too many or too few
move the ones after it.

Invariants:
- a record that is not marked holds what `read_datum` returns for it, and took exactly its bytes;
- a cursor never leaves its record: a record in which it would is marked, and its cursor is set to
  the end;
- marked are damaged records, and those with what has no one Arrow type (unions of several types).

Source: Apache Avro specification 1.12, "Binary Encoding"; docs/design/0030.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Kind
from penstock.rows.arrow_arrays import Mask, bounds_of, list_array, offsets_of, spread, struct_array
from penstock.rows.decode.avro.datum_reader import (
    CERTAIN,
    VARINT_BYTES_MAX,
    DatumError,
    datum_error,
    read_datum,
    trailing,
)
from penstock.rows.decode.format_reader import DecodedBlock, FormatReader, or_none
from penstock.rows.decode.json.parser import utf8_text
from penstock.rows.decode.logical_types import (
    ARROW_TYPES,
    EpochCount,
    UnscaledDecimal,
    VariableScaleDecimal,
)
from penstock.rows.decode.schema_tree import (
    FixedBytes,
    Listed,
    Mapped,
    Node,
    Record,
    Scalar,
    Symbols,
    Union,
)
from penstock.rows.reject_codes import RejectError

Rows = npt.NDArray[np.int64]

ITEMS_MAX = 256
"""Arrays and maps with more items are read record by record."""

_PADDING = 16
_DECIMAL_BYTES = 16
_DECIMAL_DIGITS = 38
_MORE = 0x80
_ASCII_MAX = 0x7F


def avro_reader(node: Record) -> FormatReader:
    """Return the reader of datums of a schema, each the whole of its value."""
    return FormatReader(node.type, partial(read_block, node), partial(read_datum, node))


def read_block(node: Record, values: pa.BinaryArray) -> DecodedBlock:
    """Read non-null values, each one datum of a schema."""
    block = _Block.of(values)
    array = block.value(node, np.arange(len(values)))
    return DecodedBlock(array, block.uncertain | (block.at != block.end), dict(block.rejects()))


@dataclass(slots=True)
class _Block:
    """The bytes of all records, and for each the next position to read and the end."""

    data: npt.NDArray[np.uint8]
    at: Rows
    end: Rows
    uncertain: Mask
    first: npt.NDArray[np.uint8]
    """The first fault of each record, a `DatumError`; fields are read in their order."""

    @classmethod
    def of(cls, values: pa.BinaryArray) -> _Block:
        """Copy values into one padded buffer, each with a cursor at its begin."""
        bounds, data = bounds_of(values), values.buffers()[2]
        first, last = int(bounds[0]), int(bounds[-1])
        taken = np.zeros(last - first + _PADDING, np.uint8)
        if last > first:
            taken[: last - first] = np.frombuffer(data, np.uint8)[first:last]
        places = bounds.astype(np.int64) - first
        uncertain, faults = np.zeros(len(values), np.bool_), np.zeros(len(values), np.uint8)
        return cls(taken, places[:-1].copy(), places[1:], uncertain, faults)

    def rejects(self) -> Iterator[tuple[int, RejectError]]:
        left = self.end - self.at
        for fault in CERTAIN:
            error = datum_error(fault)
            for row in np.flatnonzero(self.first == fault).tolist():
                yield row, error
        more = (self.first == DatumError.NONE) & (left != 0) & ~self.uncertain
        for row in np.flatnonzero(more).tolist():
            yield row, trailing(int(left[row]))

    def give_up(self, rows: Rows, fault: DatumError) -> None:
        """Mark records and put their cursors out of the way."""
        self.doubt(rows, fault)
        self.at[rows] = self.end[rows]

    def doubt(self, rows: Rows, fault: DatumError) -> None:
        """Mark records; of their faults the first counts."""
        self.uncertain[rows] = True
        self.first[rows[self.first[rows] == DatumError.NONE]] = fault

    def move(self, rows: Rows, to: Rows) -> None:
        self.at[rows] = to
        beyond = to > self.end[rows]
        if beyond.any():
            self.give_up(rows[beyond], DatumError.CUT_OFF)

    def value(self, node: Node, rows: Rows) -> pa.Array:
        """Read one value of each of some records, no record twice."""
        match node:
            case Scalar(kind, meaning):
                return self._scalar(kind, meaning, rows)
            case Symbols(symbols):
                return self._symbol(symbols, rows)
            case FixedBytes(length, meaning):
                return self._fixed(length, meaning, rows)
            case Union():
                return self._union(node, rows)
            case Record(fields, meaning):
                return self._record(fields, meaning, rows)
            case Listed(items):
                return self._array(items, rows)
            case Mapped(keys, values):
                return self._map(keys, values, rows)
            case _:
                raise AssertionError(node)

    def long(self, rows: Rows) -> npt.NDArray[np.int64]:
        at = self.at[rows]
        byte = self.data[at]
        number = (byte & _ASCII_MAX).astype(np.uint64)
        length = np.ones(len(rows), np.int64)
        more = np.flatnonzero(byte & _MORE)
        for place in range(1, VARINT_BYTES_MAX):
            if not len(more):
                break
            byte = self.data[at[more] + place]
            number[more] |= (byte & _ASCII_MAX).astype(np.uint64) << np.uint64(7 * place)
            length[more] += 1
            if place == VARINT_BYTES_MAX - 1:
                # Ten bytes hold 70 bits: the last one may bring a single one, and no more follow.
                self.doubt(rows[more[byte > 1]], DatumError.UNSURE)
            more = more[(byte & _MORE) != 0]
        self.move(rows, at + length)
        signs = (number & np.uint64(1)).astype(np.int64)
        return (number >> np.uint64(1)).astype(np.int64) ^ -signs

    def _scalar(self, kind: Kind, meaning: Any, rows: Rows) -> pa.Array:
        if kind is Kind.UNKNOWN:
            return pa.nulls(len(rows))
        if isinstance(meaning, UnscaledDecimal):
            return self._decimal(rows, meaning.scale, *self._lengths(rows))
        array = self._plain(kind, rows)
        if not isinstance(meaning, EpochCount):
            return array
        target = ARROW_TYPES[meaning]
        fits = target.bit_width == array.type.bit_width
        return array.view(target) if fits else self._doubt(rows)

    def _plain(self, kind: Kind, rows: Rows) -> pa.Array:
        match kind:
            case Kind.BOOLEAN:
                at = self.at[rows]
                bytes_ = self.data[at]
                self.move(rows, at + 1)
                self._require(rows, bytes_ <= 1, DatumError.UNSURE)
                return pa.array(bytes_ == 1)
            case Kind.INT:
                numbers = self.long(rows)
                narrow = numbers.astype(np.int32)
                self._require(rows, narrow == numbers, DatumError.WIDE)
                return pa.array(narrow)
            case Kind.LONG:
                return pa.array(self.long(rows))
            case Kind.FLOAT:
                return pa.array(self._taken(rows, 4).view("<f4").reshape(-1))
            case Kind.DOUBLE:
                return pa.array(self._taken(rows, 8).view("<f8").reshape(-1))
            case Kind.BINARY:
                return self._gathered(*self._lengths(rows))
            case _:
                return self._text(rows)

    def _doubt(self, rows: Rows) -> pa.Array:
        self.doubt(rows, DatumError.UNSURE)
        return pa.nulls(len(rows))

    def _require(self, rows: Rows, right: Mask, fault: DatumError) -> None:
        if not right.all():
            self.give_up(rows[~right], fault)

    def _taken(self, rows: Rows, length: int) -> npt.NDArray[np.uint8]:
        at = self.at[rows]
        self.move(rows, at + length)
        index = np.minimum(at, len(self.data) - length)[:, None] + np.arange(length)
        return self.data[index]

    def _lengths(self, rows: Rows) -> tuple[Rows, Rows]:
        """Read a length that fits into the record: return the positions after it, and lengths."""
        lengths = self.long(rows)
        at = self.at[rows]
        negative = lengths < 0
        right = ~negative & (lengths <= self.end[rows] - at)
        lengths = np.where(right, lengths, 0)
        self.at[rows] = at + lengths
        self._require(rows, ~negative, DatumError.NEGATIVE)
        self._require(rows, right, DatumError.CUT_OFF)
        return at, lengths

    def _gathered(self, at: Rows, lengths: Rows) -> pa.BinaryArray:
        offsets = offsets_of(lengths)
        taken = self.data[np.arange(offsets[-1]) + np.repeat(at - offsets[:-1], lengths)]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(taken)]
        return pa.Array.from_buffers(pa.binary(), len(at), buffers)

    def _text(self, rows: Rows) -> pa.StringArray:
        data = self._gathered(*self._lengths(rows))
        try:
            return data.cast(pa.string())
        except pa.ArrowInvalid:
            texts = [or_none(utf8_text, each.as_py()) for each in data]
            right = np.array([text is not None for text in texts], np.bool_)
            self._require(rows, right, DatumError.NOT_UTF8)
            return pa.array([text or "" for text in texts], pa.string())

    def _decimal(self, rows: Rows, scale: int, at: Rows, lengths: Rows) -> pa.Array:
        """Read big-endian two's complement numbers of up to 16 bytes; mark what is larger."""
        if scale not in range(_DECIMAL_DIGITS + 1):
            return self._doubt(rows)
        place = np.arange(_DECIMAL_BYTES)
        index = np.clip((at + lengths - 1)[:, None] - place, 0, len(self.data) - 1)
        negative = (lengths > 0) & (self.data[np.minimum(at, len(self.data) - 1)] >= _MORE)
        sign = np.where(negative, np.uint8(0xFF), np.uint8(0))
        data = np.where(place < lengths[:, None], self.data[index], sign[:, None])
        buffer = pa.py_buffer(data)
        wide = pa.Array.from_buffers(pa.decimal128(_DECIMAL_DIGITS, 0), len(rows), [None, buffer])
        bound = pa.scalar(10**_DECIMAL_DIGITS - 1, pa.decimal128(_DECIMAL_DIGITS, 0))
        low = pc.negate(bound)
        fits = pc.and_(pc.less_equal(wide, bound), pc.greater_equal(wide, low))
        right = fits.to_numpy(zero_copy_only=False) & (lengths <= _DECIMAL_BYTES)
        self.doubt(rows[~right], DatumError.UNSURE)
        data[~right] = 0  # Arrow fails on a number of more digits than its type has
        return pa.Array.from_buffers(
            pa.decimal128(_DECIMAL_DIGITS, scale), len(rows), [None, buffer]
        )

    def _fixed(self, length: int, meaning: Any, rows: Rows) -> pa.Array:
        at = self.at[rows]
        lengths = np.where(at + length <= self.end[rows], length, 0)
        self.move(rows, at + length)
        if isinstance(meaning, UnscaledDecimal):
            return self._decimal(rows, meaning.scale, at, lengths)
        # Not as wide as the type for each row: records may be many, and too short to hold one.
        return self._gathered(at, lengths)

    def _symbol(self, symbols: Mapping[int, str], rows: Rows) -> pa.Array:
        index = self.long(rows)
        right = (index >= 0) & (index < len(symbols))
        self._require(rows, right, DatumError.UNSURE)
        return pa.array([*symbols.values(), ""]).take(
            pa.array(np.where(right, index, len(symbols)))
        )

    def _union(self, node: Union, rows: Rows) -> pa.Array:
        index = self.long(rows)
        self._require(rows, (index >= 0) & (index < len(node.branches)), DatumError.UNSURE)
        if node.only is not None:
            present = index == node.only
            return spread(self.value(node.branches[node.only], rows[present]), present)
        for number, branch in enumerate(node.branches):
            taking = rows[index == number]
            self.value(branch, taking)
            if number != node.null:
                self.uncertain[taking] = True  # what it holds was read, and is right
        return pa.nulls(len(rows))

    def _record(self, fields: Any, meaning: Any, rows: Rows) -> pa.Array:
        members = [self.value(member, rows) for _, member in fields]
        if isinstance(meaning, VariableScaleDecimal):
            return self._doubt(rows)
        return struct_array([name for name, _ in fields], members, len(rows))

    def _array(self, items: Node, rows: Rows) -> pa.Array:
        counts, (elements,) = self._items(
            rows, lambda those: (self.value(items, those),), filled=_takes_bytes(items)
        )
        return list_array(counts, elements)

    def _map(self, key: Node, value: Node, rows: Rows) -> pa.Array:
        counts, (keys, members) = self._items(
            rows, lambda those: (self.value(key, those), self.value(value, those)), filled=True
        )
        if keys.null_count:  # Arrow ends the process over a key that is null
            self.doubt(rows, DatumError.UNSURE)
            return pa.array([[]] * len(rows), pa.map_(keys.type, members.type))
        self._refuse_twins(rows, counts, keys)
        return pa.MapArray.from_arrays(pa.array(offsets_of(counts)), keys, members)

    def _refuse_twins(self, rows: Rows, counts: Rows, keys: pa.Array) -> None:
        owners = np.repeat(np.arange(len(rows)), counts)
        codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
        pairs = owners * (len(keys) + 1) + codes
        found, first = np.unique(pairs, return_index=True)
        if len(found) != len(pairs):
            twins = np.ones(len(pairs), np.bool_)
            twins[first] = False
            self.doubt(rows[owners[twins]], DatumError.UNSURE)

    def _items(
        self, rows: Rows, read: Callable[[Rows], tuple[pa.Array, ...]], *, filled: bool
    ) -> tuple[Rows, list[pa.Array]]:
        """Read the items of an array or map of each record, one step for the n-th of all."""
        left = np.zeros(len(rows), np.int64)
        live = np.arange(len(rows))
        owners, pieces = [live[:0]], [read(rows[:0])]
        for _ in range(ITEMS_MAX):
            live = self._with_items(rows, live, left)
            if not len(live):
                break
            owners.append(live)
            pieces.append(read(rows[live]))
            left[live] -= 1
        if len(live) or not filled:
            self.doubt(rows[np.unique(np.concatenate(owners))], DatumError.UNSURE)
            self.give_up(rows[live], DatumError.UNSURE)
        self.doubt(rows[self.uncertain[rows]], DatumError.UNSURE)  # items of these were not read
        owned = np.concatenate(owners)
        order = pa.array(np.argsort(owned, kind="stable"))
        columns = [pa.concat_arrays(column).take(order) for column in zip(*pieces, strict=True)]
        return np.bincount(owned, minlength=len(rows)), columns

    def _with_items(self, rows: Rows, live: Rows, left: Rows) -> Rows:
        """Return which records have more items, reading the count where a block of items begins."""
        while len(need := live[(left[live] == 0) & ~self.uncertain[rows[live]]]):
            count = self.long(rows[need])
            sized = need[count < 0]
            if len(sized):
                self._require(rows[sized], self.long(rows[sized]) >= 0, DatumError.NEGATIVE)
            count = np.abs(count)
            right = (count >= 0) & (count <= self.end[rows[need]] - self.at[rows[need]])
            self._require(rows[need], right, DatumError.UNSURE)
            left[need] = np.where(right, count, 0)
            live = live[(left[live] > 0) & ~self.uncertain[rows[live]]]
        return live[~self.uncertain[rows[live]]]


def _takes_bytes(node: Node) -> bool:
    """Return whether each value of a type has at least one byte."""
    match node:
        case Scalar(kind):
            return kind is not Kind.UNKNOWN
        case FixedBytes(length):
            return length > 0
        case Record(fields):
            return any(_takes_bytes(member) for _, member in fields)
        case _:
            return True
