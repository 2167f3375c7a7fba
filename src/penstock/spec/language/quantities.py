"""Durations, sizes and shares as words (`30s`, `256MB`, `1%`), read and written exactly.

Invariants:
- nothing is rounded: a duration is whole milliseconds, a size whole bytes, or it is refused;
- what is written reads back as the same number;
- `MB` is 10**6 bytes and `MiB` is 2**20, as everywhere outside memory chips.

All readers raise ValueError with a sentence of what was expected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, localcontext

from penstock.core.errors import InvalidError

CHARS_MAX = 40
MILLISECONDS_MAX = 366 * 24 * 3_600_000
BYTES_MAX = 1 << 50
PERCENT_DIGITS_MAX = 12

_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_UNIT_BYTES = {
    "TiB": 1 << 40,
    "GiB": 1 << 30,
    "MiB": 1 << 20,
    "KiB": 1 << 10,
    "TB": 10**12,
    "GB": 10**9,
    "MB": 10**6,
    "kB": 10**3,
    "B": 1,
}
_BYTES_BY_NAME = {name.lower(): size for name, size in _UNIT_BYTES.items()}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_DURATION = re.compile(rf"(?:{_NUMBER}\s*(?:ms|[dhms])\s*)+")
_DURATION_PART = re.compile(rf"({_NUMBER})\s*(ms|[dhms])")
_SIZE = re.compile(rf"({_NUMBER})\s*([kKmMgGtT]?[iI]?[bB])")
_PERCENT = re.compile(rf"({_NUMBER})\s*%")


def duration_ms(text: str) -> int:
    """Read `250ms`, `30s`, `5m`, `1h30m`, `7d` as milliseconds, 1 ms to 366 days."""
    text = text.strip()
    if len(text) > CHARS_MAX or not _DURATION.fullmatch(text):
        raise ValueError("a duration such as 250ms, 30s, 5m, 1h or 7d")
    parts = [Decimal(number) * _UNIT_MS[unit] for number, unit in _DURATION_PART.findall(text)]
    total = sum(parts, Decimal(0))
    if total != total.to_integral_value() or not 1 <= total <= MILLISECONDS_MAX:
        raise ValueError("a duration of whole milliseconds, from 1ms to 366d")
    return int(total)


def length_ms(option: str, text: str) -> int:
    """Read how long something lasts as an option says it, in milliseconds.

    Raises InvalidError (P176).
    """
    try:
        return duration_ms(text)
    except ValueError as error:
        raise no_length(option, text, str(error)) from error


def no_length(option: str, text: str, fact: str) -> InvalidError:
    """Return the error for a length that an option does not take."""
    return InvalidError(
        f"{option} {text[:40]}: {fact}", code="P176", hint="write it as 30s, 10m or 2h"
    )


def duration_text(milliseconds: int) -> str:
    """Write milliseconds in the largest unit that holds them whole."""
    for unit, size in _UNIT_MS.items():
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    raise AssertionError("every whole number is whole milliseconds")


def size_bytes(text: str) -> int:
    """Read `256MB`, `64MiB`, `1.5GB`, `100B` as bytes, 1 B to 1 PiB."""
    found = _SIZE.fullmatch(text.strip()) if len(text) <= CHARS_MAX else None
    if found is None or found[2].lower() not in _BYTES_BY_NAME:
        raise ValueError("a size such as 8MB, 64MiB or 1.5GB")
    total = Decimal(found[1]) * _BYTES_BY_NAME[found[2].lower()]
    if total != total.to_integral_value() or not 1 <= total <= BYTES_MAX:
        raise ValueError("a size of whole bytes, from 1B to 1024TiB")
    return int(total)


def size_text(size: int) -> str:
    """Write bytes in the unit that needs the fewest digits."""
    texts = [f"{size // unit}{name}" for name, unit in _UNIT_BYTES.items() if size % unit == 0]
    return min(texts, key=len)


@dataclass(frozen=True, slots=True)
class Rate:
    """So much a second: rows, or bytes."""

    rows: int | None = None
    bytes: int | None = None

    def __str__(self) -> str:
        return f"{size_text(self.bytes)}/s" if self.bytes else f"{self.rows}/s"


def rate(text: str) -> Rate:
    """Read `20000/s` as rows a second, `50MB/s` as bytes a second."""
    amount, _, unit = text.strip().partition("/")
    amount = amount.strip()
    if len(text) > CHARS_MAX or unit.strip() != "s":
        raise ValueError("rows or bytes a second such as 20000/s or 50MB/s")
    if not amount.isdecimal():
        return Rate(bytes=size_bytes(amount))
    if not 1 <= int(amount) <= BYTES_MAX:
        raise ValueError("rows a second, from 1/s on")
    return Rate(rows=int(amount))


def share(text: str) -> float:
    """Read `1%` or `0.5%` as a fraction of one, 0 to 1."""
    found = _PERCENT.fullmatch(text.strip()) if len(text) <= CHARS_MAX else None
    if found is None or len(found[1]) > PERCENT_DIGITS_MAX or Decimal(found[1]) > 100:  # noqa: PLR2004
        raise ValueError("a share such as 1% or 0.5%, from 0% to 100%")
    return float(Decimal(found[1]) / 100)


def share_text(fraction: float) -> str:
    """Write a fraction of one as a percentage."""
    with localcontext() as context:
        context.prec = 40
        percent = Decimal(repr(fraction)) * 100
    text = f"{percent:f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"
