"""Records of the wire become Arrow columns, without a Python object for any of them.

Starts of records are guessed all at once, and believed where each record ends at the start of the
next, from the first byte to the last; else they are walked one by one (docs/design/0185).

Invariants:
- the fields of a record fill it exactly, to the last byte, or it is a FallbackError: nothing is
  read outside of a record, whatever its bytes say;
- a key or value of length -1 is null, an empty one is empty; time -1 is null;
- headers with names that are not UTF-8 are a null list.

Source: Kafka documentation, "Record"; varints are those of Protocol Buffers, zigzag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connectors.kafka.columns import HEADERS
from penstock.connectors.kafka.native.connection import FallbackError

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Halves = npt.NDArray[np.uint32]

PAD = 16
"""So many bytes follow all records, so that eight bytes can be read at any of them."""
HEADERS_MAX = 1000
RECORD_BYTES_MIN = 6
VARINT_BYTES_MAX = 10
LENGTH_MAX = 1 << 31
GUESSED_BYTES_MAX = 8192
"""Longer records have lengths of three bytes, which are not guessed."""
SCANNED_BYTES = 1 << 20
"""So much is searched at once: what is found is read while it is in the cache."""
GUESSES_MAX = 4
"""With more guesses than so many for a record, it is quicker to walk."""
ROUNDS_MAX = 8
_BITS, _MORE = 127, 128
"""The bits of a number in a byte of a varint, and the mark that more bytes follow."""
_LOW = [2 + ((byte & _BITS) >> 1) for byte in range(256)]
"""What the first of two bytes of a length adds to the way to the next record."""
_FOLDS = [
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
]
_TWO_MASK, _TWO = np.uint32(0xFF8080FF), np.uint32(0x00008000)
_ONE_MASK, _LENGTH_MASK = np.uint32(0x00FF80FF), np.uint32(0xFF00)
_LENGTH_MIN = np.uint32(2 * RECORD_BYTES_MIN << 8)
_FOLDS_SHORT = [
    (np.uint32(0x007F007F), np.uint32(0x7F007F00), np.uint32(1)),
    (np.uint32(0x00003FFF), np.uint32(0x3FFF0000), np.uint32(2)),
]
_SHORT: tuple[Any, Any, list[Any]] = np.uint32(0x80808080), np.uint32(1), _FOLDS_SHORT
_LONG: tuple[Any, Any, list[Any]] = np.uint64(0x8080808080808080), np.uint64(1), _FOLDS
"""How varints of at most four and eight bytes are read: the marks that more bytes follow, a one,
and how the bits of two, four and eight bytes are moved together.
"""


def _likely_starts(data: Bytes, halves: Halves, size: int) -> Iterator[Ints]:
    """Guess where records start: at the first byte, and where a zero, the count of headers, is
    followed by a length of one or two bytes and another zero, the attributes.
    """
    yield np.zeros(1, np.int64)
    whole = -(-size // 8) * 8
    for first in range(0, whole, SCANNED_BYTES):
        words = (data[first : min(first + SCANNED_BYTES, whole)] == 0).view(np.uint64)
        some = np.flatnonzero(words != 0)
        zeros = np.flatnonzero(words[some].view(np.bool_))
        places = first + 8 * some[zeros >> 3] + (zeros & 7)
        four = halves[places]
        two = (four & _TWO_MASK) == _TWO
        one = ((four & _ONE_MASK) == 0) & (four & _LENGTH_MASK >= _LENGTH_MIN)
        starts = places[two | one] + 1
        yield starts[starts < size]


def _walk_by_two_bytes(records: bytes, count: int) -> list[int] | None:
    """Walk as if each length had two bytes, as most have: a step of the fewest operations. None
    when one has not.
    """
    low, at = _LOW, 0
    try:
        ends = [at := at + low[records[at]] + (records[at + 1] << 6) for _ in range(count)]
    except IndexError:
        return None
    starts = [0, *ends[:-1]]
    data, at_all = np.frombuffer(records, np.uint8), np.array(starts, np.int64)
    two = (data[at_all] >= _MORE) & (data[at_all + 1] < _MORE)
    return starts if ends[-1] == len(records) and two.all() else None


def _walk(records: bytes, count: int) -> list[int]:
    """Return where each record starts; they fill the bytes exactly. Raises FallbackError."""
    starts, at = [], 0
    try:
        for _ in range(count):
            starts.append(at)
            size, at = varint(records, at)
            if size < RECORD_BYTES_MIN:
                raise FallbackError(f"a record of {size} bytes")
            at += size
    except IndexError as error:
        raise FallbackError("records run over their batch") from error
    if at != len(records):
        raise FallbackError("records do not fill their batch")
    return starts


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Read one varint; return it and the position after it. Raises IndexError."""
    size = shift = 0
    while True:
        byte = data[at]
        at += 1
        size |= (byte & _BITS) << shift
        if byte < _MORE:
            return (size >> 1) ^ -(size & 1), at
        shift += 7
        if shift >= 7 * VARINT_BYTES_MAX:
            raise FallbackError("a number of more than ten bytes")


def whole_records(data: memoryview, count_max: int) -> tuple[int, int]:
    """Count the complete records at the start of some bytes; return also where the last ends."""
    count = stop = 0
    try:
        while count < count_max:
            size, at = varint(data, stop)
            if size < RECORD_BYTES_MIN:
                raise FallbackError(f"a record of {size} bytes")
            if at + size > len(data):
                break
            count, stop = count + 1, at + size
    except IndexError:  # the last length is cut off
        pass
    return count, stop


class Records:
    """Records of several batches in one buffer, and the fields of all of them.

    `data` holds the batches, one after the other, and PAD bytes more; each batch ends at one of
    `stops` and holds as many records as `counts` says. What is returned is copied from it.
    """

    def __init__(self, data: Bytes, stops: Sequence[int], counts: Sequence[int]) -> None:
        size = len(data) - PAD
        if size >= 1 << 31:
            raise FallbackError("records of more than 2 GiB")
        self._bytes = data
        self._words = np.ndarray((size + PAD - 7,), np.dtype("<u8"), data, strides=(1,))
        self._halves = np.ndarray((size + PAD - 3,), np.dtype("<u4"), data, strides=(1,))
        at = self._found(stops, counts)
        self.time_delta, at = self._inside(at + 1)
        self.offset_delta, at = self._inside(at)
        self._key_length, self._key = self._inside(at)
        self._value_length, self._value = self._inside(_after(self._key, self._key_length))
        self._header_count, self._headers = self._inside(_after(self._value, self._value_length))
        if (self._key_length < -1).any() or (self._value_length < -1).any():
            raise FallbackError("a length below -1")
        bare = self._header_count == 0
        if (self._header_count < 0).any() or (self._headers[bare] != self._end[bare]).any():
            raise FallbackError("fields do not fill their record")

    def _found(self, stops: Sequence[int], counts: Sequence[int]) -> Ints:
        guessed = self._guessed(stops[-1], sum(counts))
        if guessed is not None and (at := self._chained(guessed, stops, counts)) is not None:
            return at
        at = self._chained(self._walked(stops, counts), stops, counts)
        if at is None:
            raise FallbackError("a record is not as long as it says")
        return at

    def _guessed(self, size: int, total: int) -> Ints | None:
        """Guess where records start, unless they are long, or the last one has headers."""
        if size > GUESSED_BYTES_MAX * total or self._bytes[size - 1]:
            return None
        found, most = [], GUESSES_MAX * total
        for some in _likely_starts(self._bytes, self._halves, size):
            most -= len(some)
            if most < 0:
                return None
            found.append(some)
        starts = np.concatenate(found)
        for _ in range(ROUNDS_MAX):
            if len(starts) <= total:
                break
            starts = starts[self._linked(starts, size)]
        return starts if len(starts) == total else None

    def _walked(self, stops: Sequence[int], counts: Sequence[int]) -> Ints:
        found: list[Ints] = []
        for first, stop, count in zip([0, *stops[:-1]], stops, counts, strict=True):
            records = self._bytes[first:stop].tobytes()
            starts = _walk_by_two_bytes(records, count) or _walk(records, count)
            found.append(np.array(starts, np.int64) + first)
        return np.concatenate(found)

    def _linked(self, starts: Ints, size: int) -> npt.NDArray[np.bool_]:
        """Return which of some guesses one leads to, or the first byte is, and lead to one, or the
        end: again and again, this leaves those that the first byte leads to.
        """
        length, at = self._varints(starts)
        end = at + length
        return np.isin(starts, np.append(end, 0)) & np.isin(end, np.append(starts, size))

    def _chained(self, starts: Ints, stops: Sequence[int], counts: Sequence[int]) -> Ints | None:
        """Return where records begin after their lengths, if these lead from the first byte on from
        each to the next and from batch to batch.
        """
        length, at = self._varints(starts)
        self._end = at + length
        whole = (
            not starts[:1].any()
            and (length >= RECORD_BYTES_MIN).all()
            and (self._end[:-1] == starts[1:]).all()
            and (self._end[np.cumsum(counts) - 1] == stops).all()
        )
        return at if whole else None

    def key(self) -> pa.BinaryArray:
        """Return the keys."""
        return self._binary(self._key, self._key_length)

    def value(self) -> pa.BinaryArray:
        """Return the values."""
        return self._binary(self._value, self._value_length)

    def headers(self) -> pa.ListArray:
        """Return the headers; a null list where a name is not UTF-8."""
        if self._header_count.max(initial=0) > HEADERS_MAX:
            raise FallbackError(f"a record of more than {HEADERS_MAX} headers")
        found: list[tuple[Ints, ...]] = []
        which = np.flatnonzero(self._header_count)
        at = self._headers[which]
        turn = 0
        while len(which):
            name_length, name = self._varints(at, self._end[which])
            value_length, value = self._varints(_after(name, name_length), self._end[which])
            at = _after(value, value_length)
            if (
                (name_length < 0).any()
                or (value_length < -1).any()
                or (at > self._end[which]).any()
            ):
                raise FallbackError("a header is not understood")
            found.append((which, name, name_length, value, value_length))
            turn += 1
            on = self._header_count[which] > turn
            if (at[~on] != self._end[which][~on]).any():
                raise FallbackError("headers do not fill their record")
            which, at = which[on], at[on]
        return self._listed(found)

    def _listed(self, found: list[tuple[Ints, ...]]) -> pa.ListArray:
        bounds = np.append(0, self._header_count.cumsum()).astype(np.int32)
        if not found:
            return pa.ListArray.from_arrays(pa.array(bounds), pa.array([], HEADERS.value_type))
        which, name, name_length, value, value_length = map(
            np.concatenate, zip(*found, strict=True)
        )
        order = np.argsort(which, kind="stable")
        names = self._binary(name[order], name_length[order])
        values = self._binary(value[order], value_length[order])
        mask = None
        try:
            names = names.cast(pa.string())
        except pa.ArrowInvalid:
            names, bad = _readable(names)
            lists = np.zeros(len(self._end), np.bool_)
            lists[which[order][bad]] = True
            mask = pa.array(lists)
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
        return pa.ListArray.from_arrays(pa.array(bounds), pairs, mask=mask)

    def _inside(self, at: Ints) -> tuple[Ints, Ints]:
        return self._varints(at, self._end)

    def _varints(self, at: Ints, end: Ints | None = None) -> tuple[Ints, Ints]:
        """Read varints, which lie before `end`; return them and the positions after them."""
        if end is not None and (at >= end).any():
            raise FallbackError("a field lies outside of its record")
        single = self._bytes[at]
        if (single < _MORE).all():
            number = single.astype(np.int64)
            return (number >> 1) ^ -(number & 1), at + 1
        found, after = self._of_one_word(at)
        if end is not None and (after > end).any():
            raise FallbackError("a number runs over its record")
        return found, after

    def _of_one_word(self, at: Ints) -> tuple[Ints, Ints]:
        """Read varints as words of four bytes, else of eight; longer ones each for itself."""
        word: npt.NDArray[Any] = self._halves[at]
        high, one, folds = _SHORT
        stops = ~word & high
        longer: list[int] = []
        if not stops.all():
            word, (high, one, folds) = self._words[at], _LONG
            stops = ~word & high
            longer = np.flatnonzero(stops == 0).tolist()
        below = (stops & (~stops + one)) - one  # all bits below the last byte's highest
        after = at + 1 + (np.bitwise_count(below) >> 3)
        word &= below
        for kept, moved, by in folds:
            word = (word & kept) | ((word & moved) >> by)
        number = word.astype(np.int64)
        number = (number >> 1) ^ -(number & 1)
        for index in longer:
            try:
                number[index], after[index] = varint(self._bytes.data, int(at[index]))
            except (IndexError, OverflowError) as error:
                raise FallbackError("a number of more than 64 bits") from error
        return number, after

    def _binary(self, at: Ints, length: Ints) -> pa.BinaryArray:
        """Take stretches of the buffer as an array; those of length -1 are null.

        They are every second piece of an array that covers the whole buffer: no copy until then.
        """
        count = len(at)
        absent = length < 0
        if absent.all():
            return pa.nulls(count, pa.binary())
        bounds = np.empty(2 * count, np.int32)
        bounds[0::2] = at
        bounds[1::2] = at + length.clip(0)
        pieces = pa.BinaryArray.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(self._bytes)]
        )
        taken = pa.array(np.arange(0, 2 * count, 2), mask=absent if absent.any() else None)
        return pieces.take(taken)


def _readable(names: pa.BinaryArray) -> tuple[pa.StringArray, Ints]:
    texts: list[str] = []
    bad: list[int] = []
    for index, name in enumerate(names.to_pylist()):
        try:
            texts.append(name.decode("utf-8"))
        except UnicodeDecodeError:
            texts.append("")
            bad.append(index)
    return pa.array(texts, pa.string()), np.array(bad, np.int64)


def _after(at: Ints, length: Ints) -> Ints:
    """Return the positions after fields, whatever their lengths say: no sum overflows."""
    after: Ints = at + length.clip(0, LENGTH_MAX)
    return after
