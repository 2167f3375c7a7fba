"""Members are cut out of JSON records as text, for rows that they do not fit.

Invariant: a text is the one that `rescuing.shown` gives for the parsed value; the records have been
parsed before, so that they are known to be JSON in UTF-8 without keys that stand twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from penstock.rows.document import parse_value
from penstock.rows.rescuing import shown

_BETWEEN = b"\0"
"""No JSON text has it."""
_RESPELT = re.compile(rb"[\\\[{]")
"""What a text has, if anything, that `rescuing.shown` may spell otherwise: escapes, blanks."""
_BLANK = re.compile(rb"[ \t\n\r]")


def texts_at(values: Sequence[bytes], names: tuple[str, ...]) -> list[str] | None:
    """Give the text of one member of each record; None where no reader has a place for its name.

    Each record must have it, in objects all the way.
    """
    decode = _decoder(names)
    if decode is None:
        return None
    found: list[Any] = [decode(value) for value in values]
    for _ in names:
        found = [each.it for each in found]
    joined = _BETWEEN.join(found)
    if not found or _RESPELT.search(joined) is not None:
        return [_as_shown(bytes(each)) for each in found]
    return joined.decode().split(_BETWEEN.decode())


def _as_shown(text: bytes) -> str:
    if b"\\" in text or (text.startswith((b"{", b"[")) and _BLANK.search(text) is not None):
        return shown(parse_value(text))
    return text.decode()


@lru_cache(maxsize=256)
def _decoder(names: tuple[str, ...]) -> Callable[[bytes], Any] | None:
    kind: Any = msgspec.Raw
    try:
        for name in reversed(names):
            kind = msgspec.defstruct("Around", [("it", kind)], rename={"it": name}, gc=False)
        return msgspec.json.Decoder(kind).decode
    except ValueError:
        # msgspec has no place for some names (quotes, control characters).
        return None
