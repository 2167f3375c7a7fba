"""What does not fit a landed row is kept in one of its columns, as JSON text by column path.

Invariants: a record with nothing to rescue has null there; numbers of JSON keep their digits; a
path that names elements (`a[].b`, `m{}`) may hold several values, and always has an array of them.

Source: data.md 2 and 3, `_rescued`.
"""

from __future__ import annotations

import base64
import decimal
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.rows.document import Number
from penstock.rows.typed import Temporal


@dataclass(slots=True)
class Drops:
    """Collect what one record's row leaves out: `paths` are dropped, `rescued` kept beside it."""

    paths: list[str] = field(default_factory=list)
    rescued: list[tuple[str, Any]] = field(default_factory=list)

    def mark(self) -> tuple[int, int]:
        """Note how much there is."""
        return len(self.paths), len(self.rescued)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what came after a mark."""
        del self.paths[mark[0] :]
        del self.rescued[mark[1] :]

    def leave(self, path: str, value: Any, policy: str) -> None:
        """Leave one value out, as the policy says."""
        if policy == "rescue":
            self.rescued.append((path, value))
        else:
            self.paths.append(path)


def rescued_text(rescued: Iterable[tuple[str, Any]]) -> str | None:
    """Show rescued values as the text of an object; None when there are none."""
    found: dict[str, list[Any]] = {}
    for path, value in rescued:
        found.setdefault(path, []).append(value)
    if not found:
        return None
    members = (
        f"{_string(path)}:{_shown(values if _is_several(path) else values[0])}"
        for path, values in found.items()
    )
    return f"{{{','.join(members)}}}"


def _is_several(path: str) -> bool:
    return "[]" in path or "{}" in path


def _shown(value: Any) -> str:
    match value:
        case Number():
            return str(value)
        case dict():
            members = (f"{_string(str(name))}:{_shown(each)}" for name, each in value.items())
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(map(_shown, value))}]"
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


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
