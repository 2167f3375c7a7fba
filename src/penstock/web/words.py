"""Values in the words of the page: what a template may do with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from penstock.app.explain import manual
from penstock.observe.formatting import (
    NOTHING,
    age_text,
    count_text,
    name_text,
    number_of,
    one_line,
    rate_text,
    seconds_text,
    size_text,
)
from penstock.observe.why import Grade
from penstock.web.drawing import BAR, BUCKETS, HEIGHT, bars

DASH = "\N{EN DASH}"
NAME_CELLS_MAX = 72
_COMMAND = re.compile(r"\bpenstock (?:run|status|members|maintain|resume|seek|quarantine [a-z]+)")
_TITLE_CHARACTERS_MAX = 160


def clock_text(at_ms: int | None, now_ms: int) -> str:
    """Write a time of day in UTC, with its day where that is not today; a dash for none."""
    if at_ms is None:
        return DASH
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    is_today = at.date() == datetime.fromtimestamp(now_ms / 1000, UTC).date()
    return f"{at:%H:%M:%S}" if is_today else f"{at:%Y-%m-%d %H:%M}"


def stamp_text(at_ms: int) -> str:
    """Write a time for machines."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def code_text(code: str) -> str:
    """Return what a code means, in its first sentence; "" for one that is not known."""
    page = manual().get(code)
    return "" if page is None else page.cause.split(". ")[0][:_TITLE_CHARACTERS_MAX]


def _dashed(write: Callable[..., str]) -> Callable[..., str]:
    """Write what is not known as a dash of print."""

    def written(*given: Any) -> str:
        text = write(*given)
        return DASH if text == NOTHING else text

    return written


def broken(name: str) -> Markup:
    """Return a name that may be broken behind its dots, and without its middle where it is long."""
    parts = name_text(name, NAME_CELLS_MAX).split(".")
    return Markup(".<wbr>").join(parts)  # which escapes each of them


def hint_parts(hint: str, spec: str) -> list[tuple[str, bool]]:
    """Return a hint in its parts, each with whether it is a command; commands name the spec."""
    text, gap, command = f"  {one_line(hint)}".rpartition("  penstock ")
    if not gap:
        return [(one_line(hint), False)]
    words = f"penstock {command}"
    if spec:
        words = _COMMAND.sub(lambda found: f"{found[0]} {spec}", words)
    return [(text.strip(), False), (words, True)] if text.strip() else [(words, True)]


FILTERS: Mapping[str, Callable[..., Any]] = {
    "age": _dashed(age_text),
    "clock": clock_text,
    "code_means": code_text,
    "count": _dashed(count_text),
    "line": one_line,
    "name": name_text,
    "rate": _dashed(rate_text),
    "seconds": seconds_text,
    "size": size_text,
    "stamp": stamp_text,
    "broken": broken,
    "hint_parts": hint_parts,
    "quoted": lambda text: quote(text, safe="", errors="replace"),
}

HELPERS: Mapping[str, Any] = {
    "number_of": number_of,
    "bars": bars,
    "BAR": BAR,
    "BARS_WIDTH": BAR * BUCKETS,
    "BARS_HEIGHT": HEIGHT,
    "FLOWS": Grade.FLOWS,
    "HELD": Grade.HELD,
    "STANDS": Grade.STANDS,
    "TITLES": {
        "tables": "Tables",
        "table": "Table",
        "epochs": "Epochs",
        "members": "Members",
        "quarantine": "Quarantine",
        "events": "Events",
        "publications": "Publications",
        "maintenance": "Maintenance",
    },
}
