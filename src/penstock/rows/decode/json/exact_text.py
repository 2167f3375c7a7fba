"""Reads numbers and bytes exactly from their text.

Invariants: an integer is never rounded, a fraction once, to the nearest; base64 is taken only in
its one standard form.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from functools import lru_cache

import pyarrow as pa

from penstock.rows.decode.json.parser import JsonNumber
from penstock.rows.reject_codes import RejectCode, RejectError

NUMERIC = re.compile(r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]+))?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_POWER_DIGITS_MAX = 12


def base64_bytes(text: str) -> bytes:
    """Read base64. Raises RejectError."""
    try:
        data = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise RejectError(RejectCode.UNREADABLE, "the text is not base64") from error
    if base64.b64encode(data) != text.encode("ascii"):
        raise RejectError(RejectCode.UNREADABLE, "the base64 text has bits to spare")
    return data


def float32_of(text: str) -> float:
    """Read a number in 32 bits. Raises RejectError."""
    # Arrow reads the text straight into 32 bits; by way of a double it would be rounded twice.
    return require_exact(text, pa.scalar(str(text)).cast(pa.float32()).as_py())


def require_exact(text: str, number: float) -> float:
    """Return the number that a text was read as. Raises RejectError where it is not the same."""
    if not math.isfinite(number):
        raise RejectError(RejectCode.OUT_OF_RANGE, "the number is too large for the column")
    if _INTEGER.fullmatch(text):
        sign, digits, exponent = number_parts(text)
        if int(f"{sign}{digits}") * 10**exponent != int(number):
            raise RejectError(RejectCode.INEXACT, "the integer would be rounded")
    return number


def is_unusual_integer(text: str) -> bool:
    """Return whether a number or text is an integer in any notation other than the plain one."""
    if isinstance(text, JsonNumber) and _INTEGER.fullmatch(text):
        return False
    return NUMERIC.fullmatch(text) is not None and number_parts(text)[2] >= 0


def digits_of(text: str) -> tuple[int, int]:
    """Count the digits of a number before and after its point, without outer zeros."""
    _, digits, exponent = number_parts(text)
    return max(len(digits) + exponent, 0) if digits != "0" else 0, max(-exponent, 0)


def is_double(text: str) -> bool:
    """Return whether a double, as it is commonly written, reads back as this very number."""
    number = float(text)
    return math.isfinite(number) and number_parts(repr(number)) == number_parts(text)


@lru_cache(maxsize=4096)
def number_parts(text: str) -> tuple[str, str, int]:
    """Split a number into sign, digits without outer zeros, and exponent; zero is `0`, 0."""
    found = NUMERIC.fullmatch(text)
    assert found is not None, "JSON numbers match"
    sign, whole, fraction, bare, power = found.groups(default="")
    fraction = fraction or bare
    digits = (whole + fraction).lstrip("0")
    kept = digits.rstrip("0")
    if not kept:
        return "", "0", 0
    exponent = _power(power) - len(fraction) + len(digits) - len(kept)
    return sign.replace("+", ""), kept, exponent


def _power(text: str) -> int:
    digits = text.lstrip("+-").lstrip("0")
    # An exponent of more digits than this is beyond every type, whatever it is exactly.
    size = int(digits or 0) if len(digits) <= _POWER_DIGITS_MAX else 10**_POWER_DIGITS_MAX
    return -size if text.startswith("-") else size
