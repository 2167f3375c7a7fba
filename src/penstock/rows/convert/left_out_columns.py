"""What rows are without, by columns: counted by path, or kept as the text of the record.

Invariants:
- a text is the one that `rescued_column.as_json` gives for the value;
- a JSON record is cut once, whatever is wanted of it, and only a few are cut at a time: what is
  made of them does not grow with the block, nor with the names that senders choose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.rows.block_result import Positions
from penstock.rows.cast.rescued_column import as_json, path_wrapping
from penstock.rows.column_paths import path_of
from penstock.rows.decode.json.parser import parse_value
from penstock.rows.decode.logical_types import PER_SECOND, DateValue, TimestampValue, TimeValue

Mask = npt.NDArray[np.bool_]

CUT_AT_ONCE = 256
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BETWEEN = b"\0"
"""No JSON text has it."""
_RESPELT = re.compile(rb"[\\\[{]")
"""What a text has, if anything, that `as_json` may spell otherwise: escapes, blanks."""
_BLANK = re.compile(rb"[ \t\n\r]")


@dataclass(frozen=True, slots=True)
class LeftOutColumn:
    """Hold a member by the names that lead to it, and which records' rows are without it."""

    names: tuple[str, ...]
    array: pa.Array
    mask: Mask
    policy: str


Wanted = Sequence[tuple[LeftOutColumn, Positions]]
"""Members, and the records that have them, at rising places."""
TextsOf = Callable[[Wanted], Sequence[list[str] | None]]
"""Gives the JSON texts of members; None where the record converter must."""


def count_dropped(left_out: Sequence[LeftOutColumn], landed: Mask) -> Counter[str]:
    """Count the values that rows are without and that are not rescued, by column path."""
    drops: Counter[str] = Counter()
    for each in left_out:
        count = int((each.mask & landed).sum()) if each.policy != "rescue" else 0
        if count:
            drops[path_of(each.names)] += count
    return drops


def rescued_texts(
    left_out: Sequence[LeftOutColumn], landed: Mask, texts_of: TextsOf
) -> tuple[dict[int, str], Mask]:
    """Return the text of what each row leaves out, by place, and the records it is not known of."""
    wanted = [(e, np.flatnonzero(e.mask & landed)) for e in left_out if e.policy == "rescue"]
    found = list(zip(wanted, texts_of(wanted), strict=True))
    unread = np.zeros(len(landed), np.bool_)
    for (each, _), texts in found:
        if texts is None:
            unread |= each.mask
    members: dict[int, str] = {}
    for (each, places), texts in found:
        before, behind = path_wrapping(path_of(each.names))
        for place, text in zip(places.tolist(), texts or (), strict=texts is not None):
            member = f"{before}{text}{behind}"
            members[place] = f"{members[place]},{member}" if place in members else member
    hidden = unread.any()
    return {p: f"{{{t}}}" for p, t in members.items() if not (hidden and unread[p])}, unread


def texts_of_typed(wanted: Wanted) -> list[list[str] | None]:
    """Return the texts of values that have types, where the values tell them."""
    found: list[list[str] | None] = []
    for each, places in wanted:
        kind = each.array.type
        untold = pa.types.is_nested(kind) or pa.types.is_floating(kind)  # 1 and 1.0 are one double
        found.append(None if untold else [*map(as_json, values_at(each.array, places))])
    return found


def raw_texts(values: pa.BinaryArray, wanted: Wanted) -> list[list[str]]:
    """Cut the texts of members out of JSON records that have been parsed before."""
    found: list[list[str]] = [[] for _ in wanted]
    for first in range(0, len(values) if wanted else 0, CUT_AT_ONCE):
        bounds = (first, first + CUT_AT_ONCE)
        records = values.slice(first, CUT_AT_ONCE).to_pylist()
        cut: dict[int, dict[str, Any]] = {}
        for (each, places), texts in zip(wanted, found, strict=True):
            begin, end = np.searchsorted(places, bounds)
            raws = []
            for place in (places[begin:end] - first).tolist():
                if place not in cut:
                    cut[place] = _MEMBERS.decode(records[place])
                raw = cut[place][each.names[0]]
                for name in each.names[1:]:
                    raw = _MEMBERS.decode(raw)[name]
                raws.append(raw)
            texts.extend(_as_texts(raws))
    return found


def _as_texts(raws: Sequence[Any]) -> list[str]:
    joined = _BETWEEN.join(raws)
    if not raws or _RESPELT.search(joined) is not None:
        return [_as_shown(bytes(each)) for each in raws]
    return joined.decode().split(_BETWEEN.decode())


def _as_shown(text: bytes) -> str:
    if b"\\" in text or (text.startswith((b"{", b"[")) and _BLANK.search(text) is not None):
        return as_json(parse_value(text))
    return text.decode()


def values_at(array: pa.Array, places: Positions) -> list[Any]:
    """Return values at some places, none of them null, as the record converter gets them."""
    kind = array.type
    taken = array.take(pa.array(places))
    if pa.types.is_struct(kind):
        return [{}] * len(places)
    if pa.types.is_list(kind):
        return [[]] * len(places)
    if not pa.types.is_temporal(kind):
        values: list[Any] = taken.to_pylist()
        return values
    counts = taken.view(pa.int64() if kind.bit_width == pa.int64().bit_width else pa.int32())
    if pa.types.is_date(kind):
        return [DateValue(count) for count in counts.to_pylist()]
    per_second = PER_SECOND[kind.unit]
    if pa.types.is_time(kind):
        return [TimeValue(count, per_second) for count in counts.to_pylist()]
    zoned = kind.tz is not None
    return [TimestampValue(count, per_second, zoned) for count in counts.to_pylist()]
