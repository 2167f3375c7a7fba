"""Tables' names of what records say: filled templates, for a batch at a time.

Invariants:
- a name is made of `[a-z0-9_]`, whatever a record says; capitals become small, and the separators
  blank, `-`, `.`, `/` and `:` become `_`;
- values that differ in these only share a table; any other character, or a separator in front,
  gives no name at all, so that nothing else is lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.spec.language.notation import NAME_CHARS_MAX, PLACEHOLDER

_USABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ ./:-]{0,127}")
_SEPARATORS = str.maketrans(" ./:-", "_____")


@dataclass(frozen=True, slots=True)
class TableNames:
    """The table each record asks for, as an index into `different`; -1 where it has none."""

    indices: npt.NDArray[np.int64]
    different: tuple[str, ...]

    @property
    def unusable(self) -> npt.NDArray[np.bool_]:
        """Return which records ask for no table."""
        mask: npt.NDArray[np.bool_] = self.indices < 0
        return mask

    def asking_for(self, name: str) -> npt.NDArray[np.bool_]:
        """Return which records ask for a table."""
        if name not in self.different:
            return np.zeros(len(self.indices), np.bool_)
        mask: npt.NDArray[np.bool_] = self.indices == self.different.index(name)
        return mask


def table_names(template: str, parts: Mapping[str, pa.Array]) -> TableNames:
    """Fill a template for each record from the values of its placeholders."""
    filled: dict[tuple[str | None, ...], int] = {}
    numbers: dict[str, int] = {}
    rows = zip(*(values.to_pylist() for values in parts.values()), strict=True)
    indices = []
    for values in rows:
        index = filled.get(values)
        if index is None:
            name = filled_name(template, dict(zip(parts, values, strict=True)))
            index = -1 if name is None else numbers.setdefault(name, len(numbers))
            filled[values] = index
        indices.append(index)
    return TableNames(np.array(indices, np.int64), tuple(numbers))


def filled_name(template: str, values: Mapping[str, str | None]) -> str | None:
    """Fill a template; None when a value is no usable part of a name."""
    if not all(value is not None and _USABLE.fullmatch(value) for value in values.values()):
        return None
    head, _, last = template.rpartition(".")
    part = PLACEHOLDER.sub(lambda found: _mapped(str(values[found[1]])), last)
    part = f"_{part}" if part[:1].isdigit() else part
    return f"{head}.{part}" if len(part) <= NAME_CHARS_MAX else None


def _mapped(value: str) -> str:
    return value.translate(_SEPARATORS).lower()
