"""The corpus of bad input: bytes of every class that data design names, and what they get.

`bad_input.jsonl` has one case a line: the class, the value as pieces `[text in latin-1, times]`, what
else the record has, the rules that differ, and its outcome: a code, a reason it is filtered under, or
the members that land.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("bad_input.jsonl")


@dataclass(frozen=True, slots=True)
class Case:
    """Hold one line; `value` is None for a tombstone."""

    kind: str
    value: bytes | None
    code: str | None
    filtered: str | None
    lands: dict[str, Any] | None
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int
    options: dict[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()


def cases() -> list[Case]:
    """Read all cases in order."""
    return [_case(json.loads(line)) for line in FILE.read_text("utf-8").splitlines()]


def _case(line: dict[str, Any]) -> Case:
    pieces = line["value"]
    value = None
    if pieces is not None:
        value = b"".join(text.encode("latin-1") * times for text, times in pieces)
    return Case(
        kind=line["class"],
        value=value,
        code=line.get("code"),
        filtered=line.get("filtered"),
        lands=line.get("lands"),
        key=line["key"].encode() if "key" in line else None,
        headers=tuple((name, text.encode()) for name, text in line.get("headers", ())),
        timestamp_ms=line.get("timestamp", 0),
        options=line.get("options", {}),
        required=tuple(line.get("required", ())),
    )
