"""Keeps the values that do not fit a landed row in one column, as JSON text by column path.

Invariants:
- a record with nothing to rescue has null there; numbers of JSON keep their digits;
- a path that names elements (`a[].b`, `m{}`) may hold several values, and always has an array of
  them; so has any other that was met more than once: nothing is left out.

Source: data.md 2 and 3, `_rescued`.
"""

from __future__ import annotations

import base64
import decimal
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.rows.decode.json.parser import JsonNumber
from penstock.rows.decode.logical_types import Temporal

_ELEMENTS = re.compile(r"(?<!\\)(?:\\\\)*(?:\[\]|\{\})")


@dataclass(slots=True)
class LeftOut:
    """Collect what one record's row leaves out: `paths` are dropped, `rescued` is kept."""

    paths: list[str] = field(default_factory=list)
    rescued: list[tuple[str, Any]] = field(default_factory=list)

    def leave(self, path: str, value: Any, policy: str) -> None:
        """Leave one value out, as the policy says."""
        if policy == "rescue":
            self.rescued.append((path, value))
        else:
            self.paths.append(path)


def rescued_json(rescued: Iterable[tuple[str, Any]]) -> str | None:
    """Show rescued values as the text of an object; None when there are none."""
    found: dict[str, list[Any]] = {}
    for path, value in rescued:
        found.setdefault(path, []).append(value)
    if not found:
        return None
    members = (
        f"{_string(path)}:{as_json(values if _is_several(path, values) else values[0])}"
        for path, values in found.items()
    )
    return f"{{{','.join(members)}}}"


def path_wrapping(path: str) -> tuple[str, str]:
    """Return the JSON text before and after the one value of a path."""
    opening, closing = ("[", "]") if _is_several(path, [None]) else ("", "")
    return f"{_string(path)}:{opening}", closing


def _is_several(path: str, values: list[Any]) -> bool:
    return len(values) > 1 or _ELEMENTS.search(path) is not None


def as_json(value: Any) -> str:
    """Show a decoded value as JSON."""
    match value:
        case JsonNumber():
            return str(value)
        case dict():
            return _object(value)
        case list():
            return f"[{','.join(map(as_json, value))}]"
        case bytes():
            return _string(base64.b64encode(value).decode())
        case float() if not math.isfinite(value):
            return _string(str(value))
        case decimal.Decimal():
            return f"{value:f}"
        case None | bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            assert isinstance(value, Temporal), value
            return str(value.count)


def _object(entries: dict[Any, Any]) -> str:
    """Show members; a key that is no text is the text of what it would be as a value."""
    members = []
    for key, each in entries.items():
        name = as_json(key)
        is_text = name.startswith('"')
        members.append(f"{name if is_text else _string(name)}:{as_json(each)}")
    return f"{{{','.join(members)}}}"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
