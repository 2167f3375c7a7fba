"""The values that rows leave out, by columns: counted by path, or kept as text of the record.

Invariants:
- a text is the one that `rescued_column.as_json` returns for the value;
- a JSON record is cut once, whatever is wanted of it, and only a few are cut at a time: what is
  made of them does not grow with the block, nor with the names that senders choose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import numpy as np
import pyarrow as pa

from penstock.core.column_paths import path_of
from penstock.core.schema import Kind
from penstock.rows.arrow_arrays import Mask
from penstock.rows.block_result import Positions
from penstock.rows.cast.rescued_column import as_json, path_wrapping
from penstock.rows.decode.json.parser import parse_value
from penstock.rows.decode.logical_types import PER_SECOND, EpochCount

CUT_AT_ONCE = 256
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BLANK = re.compile(r"[ \t\n\r]")


@dataclass(frozen=True, slots=True)
class LeftOutColumn:
    """A member, by the names that lead to it, and the records whose rows leave it out."""

    names: tuple[str, ...]
    array: pa.Array
    mask: Mask
    policy: str


Wanted = Sequence[tuple[LeftOutColumn, Positions]]
"""Members, and the records that have them, at rising places."""
TextsOf = Callable[[Wanted], Sequence[list[str] | None]]
"""Returns the JSON texts of members; None where the record converter must write them."""


def rescued_texts(
    left_out: Sequence[LeftOutColumn], landed: Mask, texts_of: TextsOf
) -> tuple[dict[int, str], Mask]:
    """Return the text of what each row leaves out, by place, and the records it is not known of."""
    wanted = [(e, np.flatnonzero(e.mask & landed)) for e in left_out if e.policy == "rescue"]
    unread = np.zeros(len(landed), np.bool_)
    members: dict[int, str] = {}
    for (each, places), texts in zip(wanted, texts_of(wanted), strict=True):
        if texts is None:
            unread |= each.mask
            continue
        before, after = path_wrapping(path_of(each.names))
        for place, text in zip(places.tolist(), texts, strict=True):
            member = f"{before}{text}{after}"
            members[place] = f"{members[place]},{member}" if place in members else member
    for place in np.flatnonzero(unread).tolist():
        members.pop(place, None)
    return {place: f"{{{text}}}" for place, text in members.items()}, unread


def texts_of_typed(wanted: Wanted) -> list[list[str] | None]:
    """Return the texts of typed values, None where the value alone does not determine its text."""
    found: list[list[str] | None] = []
    for each, places in wanted:
        kind = each.array.type
        # 1 and 1.0 are one double.
        ambiguous = pa.types.is_nested(kind) or pa.types.is_floating(kind)
        found.append(None if ambiguous else [*map(as_json, values_at(each.array, places))])
    return found


def raw_texts(values: pa.BinaryArray, wanted: Wanted) -> list[list[str]]:
    """Cut the texts of members out of JSON records that have been parsed before."""
    found: list[list[str]] = [[] for _ in wanted]
    decode = _decoder({each.names[0] for each, _ in wanted})
    for first in range(0, len(values) if wanted else 0, CUT_AT_ONCE):
        bounds = (first, first + CUT_AT_ONCE)
        records = values.slice(first, CUT_AT_ONCE).to_pylist()
        cut: dict[int, dict[str, Any]] = {}
        for (each, places), texts in zip(wanted, found, strict=True):
            begin, end = np.searchsorted(places, bounds)
            for place in (places[begin:end] - first).tolist():
                if place not in cut:
                    cut[place] = decode(records[place])
                raw = cut[place][each.names[0]]
                for name in each.names[1:]:
                    raw = _MEMBERS.decode(raw)[name]
                texts.append(_as_shown(raw))
    return found


def _decoder(names: set[str]) -> Callable[[bytes], Any]:
    """Return what cuts at least these members out of a record, the others passed over."""
    if not all(map(str.isascii, names)):  # msgspec 0.22 passes over such members of a TypedDict
        return _MEMBERS.decode
    members: Any = TypedDict("Members", dict.fromkeys(names, msgspec.Raw), total=False)  # type: ignore[misc]
    return msgspec.json.Decoder(members).decode


def _as_shown(raw: Any) -> str:
    text = str(raw, "utf-8")
    if "\\" in text or (text[0] in "{[" and _BLANK.search(text) is not None):
        return as_json(parse_value(text.encode()))
    return text


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
    if pa.types.is_timestamp(kind):
        unit = EpochCount(Kind.TIMESTAMPTZ if kind.tz else Kind.TIMESTAMP, PER_SECOND[kind.unit])
    else:
        is_time = pa.types.is_time(kind)
        unit = EpochCount(Kind.TIME, PER_SECOND[kind.unit]) if is_time else EpochCount(Kind.DATE)
    return [*map(unit.value_of, counts.to_pylist())]
