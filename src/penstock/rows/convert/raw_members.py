"""Members are cut out of JSON records as text, for rows that they do not fit.

Invariants:
- a text is the one that `rescuing.shown` gives for the parsed value; the records have been parsed
  before, so that they are known to be JSON in UTF-8 without keys that stand twice;
- a record is cut once, whatever is wanted of it, and only a few are cut at a time: what is made of
  them does not grow with the block, nor with the names that senders choose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.rows.block_result import Positions
from penstock.rows.cast.rescued_column import as_json
from penstock.rows.decode.json.parser import parse_value

CUT_AT_ONCE = 256
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BETWEEN = b"\0"
"""No JSON text has it."""
_RESPELT = re.compile(rb"[\\\[{]")
"""What a text has, if anything, that `rescuing.shown` may spell otherwise: escapes, blanks."""
_BLANK = re.compile(rb"[ \t\n\r]")

Requested = tuple[tuple[str, ...], Positions]
"""The names that lead to a member, and the records whose it is: they have it, at rising places."""


def raw_texts(values: pa.BinaryArray, wanted: Sequence[Requested]) -> list[list[str]]:
    """Return the texts of members of some records."""
    found: list[list[str]] = [[] for _ in wanted]
    for first in range(0, len(values), CUT_AT_ONCE):
        bounds = (first, first + CUT_AT_ONCE)
        records = values.slice(first, CUT_AT_ONCE).to_pylist()
        cut: dict[int, dict[str, Any]] = {}
        for (names, places), texts in zip(wanted, found, strict=True):
            begin, end = np.searchsorted(places, bounds)
            raws = []
            for place in (places[begin:end] - first).tolist():
                if place not in cut:
                    cut[place] = _MEMBERS.decode(records[place])
                raw = cut[place][names[0]]
                for name in names[1:]:
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
