"""`penstock explain`: the manual of errors, which needs no network.

A page has two sources: what the code says and does is collected from the sources by `make docs`
(manual/facts.json), cause and example are written by people (manual/P1.md … P8.md).

Invariant: every code that is raised has both parts (tests/tidy/test_manual.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from penstock.core.errors import InvalidError

ENDINGS = {
    "2": "the command exits with 2: your input has to be corrected",
    "3": "the command exits with 3: a newer owner runs; do not restart this one",
    "4": "the command exits with 4: you must decide; nothing was skipped",
    "70": "the command exits with 70: a bug of Penstock, please report it",
    "75": "the command exits with 75: try again later",
    "tried again": "handled internally: it is retried, and appears in the log only",
    "found out": "handled internally: Penstock finds out what happened; it appears in the log only",
    "quarantined": "the record goes to the quarantine table, with its bytes and this code",
}

_SECTION = re.compile(r"^## (?P<code>P\d{3})\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^# (?P<subject>.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ManualPage:
    """One code: what is said when it happens, why it happens, an example, what to do.

    A `…` replaces what is known only when it happens. `says` and `does` belong together loosely:
    one code may be raised in several places.
    """

    code: str
    subject: str
    ending: str
    says: tuple[str, ...]
    cause: str
    example: str
    does: tuple[str, ...]


def explain(code: str) -> ManualPage:
    """Return the page of a code, written in any case, with or without its P.

    Raises InvalidError (P160) when no such code exists.
    """
    wanted = "P" + code.strip().upper().removeprefix("P")
    known = manual()
    if wanted not in known:
        raise InvalidError(
            f"there is no error code {code[:20]!r}", code="P160", hint="list all:  penstock explain"
        )
    return known[wanted]


@cache
def manual() -> Mapping[str, ManualPage]:
    """Return all pages by code, in order."""
    folder = files("penstock.app") / "manual"
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text("utf-8"))
    written: dict[str, tuple[str, str, str, str]] = {}
    for name in sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".md")):
        written |= read_subject((folder / name).read_text("utf-8"))
    pages = {}
    for code, fact in facts.items():
        subject, cause, example, advice = written.get(code, ("", "", "", ""))
        does = (*fact["does"], *filter(None, [advice]))
        says = tuple(fact["says"])
        pages[code] = ManualPage(code, subject, fact["exit"], says, cause, example, does)
    return pages


def read_subject(text: str) -> dict[str, tuple[str, str, str, str]]:
    """Read subject, cause, example and advice of each code from one file of the manual."""
    heading = _HEADING.search(text)
    subject = heading["subject"] if heading else ""
    return {
        found["code"]: (subject, *_parts(found["text"].strip()))
        for found in _SECTION.finditer(text)
    }


def _parts(text: str) -> tuple[str, str, str]:
    parts: dict[str, list[str]] = {"": [], "Example": [], "Do": []}
    part = parts[""]
    for line in text.splitlines():
        name, colon, rest = line.partition(": ")
        begins = bool(colon) and name in parts
        part = parts[name] if begins else part
        part.append(rest if begins else line)
    cause, example, action = (" ".join(lines).strip() for lines in parts.values())
    return cause, example, action
