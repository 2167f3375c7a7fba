"""Tables' names of what records say: filled templates, for a batch at a time.

Invariants:
- a name is made of `[a-z0-9_]`, whatever a record says; capitals become small, and the separators
  blank, `-`, `.`, `/` and `:` become `_`;
- values that differ in these only share a table; any other character, or a separator in front,
  makes no name at all, so that nothing else is lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.spec.language.notation import NAME_CHARS_MAX, PLACEHOLDER

_USABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ ./:-]{0,127}")
_SEPARATORS = str.maketrans(" ./:-", "_____")


def table_names(
    template: str, parts: Mapping[str, pa.Array]
) -> tuple[npt.NDArray[np.int64], dict[str, int]]:
    """Fill a template for each record from the values of its placeholders.

    Return the number of the table that each record asks for, -1 where it asks for none, and the
    numbers by name.
    """
    filled: dict[tuple[str | None, ...], int] = {}
    numbers: dict[str, int] = {}
    rows = zip(*(values.to_pylist() for values in parts.values()), strict=True)
    asked = []
    for values in rows:
        number = filled.get(values)
        if number is None:
            name = filled_name(template, dict(zip(parts, values, strict=True)))
            number = -1 if name is None else numbers.setdefault(name, len(numbers))
            filled[values] = number
        asked.append(number)
    return np.array(asked, np.int64), numbers


def filled_name(template: str, values: Mapping[str, str | None]) -> str | None:
    """Fill a template; None when a value is no usable part of a name."""
    if not all(value is not None and _USABLE.fullmatch(value) for value in values.values()):
        return None
    head, _, last = template.rpartition(".")
    part = PLACEHOLDER.sub(lambda found: str(values[found[1]]).translate(_SEPARATORS).lower(), last)
    part = f"_{part}" if part[:1].isdigit() else part
    return f"{head}.{part}" if len(part) <= NAME_CHARS_MAX else None
