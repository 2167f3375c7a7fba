"""What is wrong in a spec: all of it at once, each with its place and how to fix it.

Invariants:
- problems are sorted by line, those without a place (the Python twin's) in the order of discovery;
- an excerpt never shows a secret: the caller hands in lines in which secrets are masked already;
- a warning never makes a spec invalid: `SpecError` holds at least one error.
"""

from __future__ import annotations

import difflib
import json
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from penstock.core.errors import InvalidError

KeyPath = tuple[str | int, ...]

PROBLEMS_MAX = 100
WIDTH = 100
_GUTTER, _HINT = "     | ", "       "
EXCERPT_CHARS_MAX = 120
READ_CHARS_MAX = 60

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Place:
    """Point into a file: one-based line and column, and how many characters are meant.

    `text` is the line as it may be shown.
    """

    file: str
    line: int
    column: int
    length: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: a dotted path, a sentence of fact, a code, and what to do.

    `on_key`: the name of the setting is meant, not its value.
    """

    path: KeyPath
    code: str
    message: str
    hint: str = ""
    severity: Literal["error", "warning"] = "error"
    on_key: bool = False
    place: Place | None = None

    def __str__(self) -> str:
        return render([self])


class SpecError(InvalidError):
    """The spec is wrong: holds every problem that was found, and prints them all."""

    def __init__(self, problems: Iterable[Problem], *, name: str) -> None:
        self.problems = tuple(problems)
        self.name = name
        errors = [problem for problem in self.problems if problem.severity == "error"]
        assert errors, "a spec without errors is no SpecError"
        count = "1 problem" if len(errors) == 1 else f"{len(errors)} problems"
        super().__init__(
            f"{name} has {count}",
            code=errors[0].code,
            hint="fix these lines, then  penstock validate",
        )

    def __str__(self) -> str:
        return f"{self.message}\n{render(self.problems)}"

    def __reduce__(self) -> tuple[object, ...]:
        return (partial(SpecError, name=self.name), (self.problems,))


def path_text(path: KeyPath) -> str:
    """Write a path as people do: `tables[0].into`, `tables[0].properties["write.x"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{shown(step)}]"
    return text


def shown(value: object) -> str:
    """Quote what was read: on one line, printable, and clipped."""
    if not isinstance(value, str):
        text = str(value)
    elif value.isprintable() and "'" not in value:
        text = f"'{value}'"
    else:
        text = json.dumps(value, ensure_ascii=not value.isprintable())
    return text if len(text) <= READ_CHARS_MAX else f"{text[: READ_CHARS_MAX - 1]}…"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to a word, or nothing."""
    names = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word[:64].lower(), names, n=1, cutoff=0.65)
    return names[found[0]] if found else ""


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """List names for a sentence: `a, b or c`."""
    all_names = list(names)
    if len(all_names) > most:
        return f"{', '.join(all_names[:most])}, … ({len(all_names)} in all)"
    head, last = all_names[:-1], all_names[-1:]
    return " or ".join(filter(None, [", ".join(head), *last]))


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Sort by line and column; what has no place keeps its order and comes first."""
    return sorted(
        problems, key=lambda each: (each.place.line, each.place.column) if each.place else (0, 0)
    )


def render(problems: Sequence[Problem], *, width: int | None = None) -> str:
    """Write problems for people, one block each (interface.md 1).

    With a `width`, sentences that do not fit go on in further lines.
    """
    return "\n".join(line for problem in problems for line in _block(problem, width))


def _block(problem: Problem, width: int | None) -> list[str]:
    where = path_text(problem.path)
    severity = "warning: " if problem.severity == "warning" else ""
    text = severity + (f"{where}: {problem.message}" if where else problem.message)
    if problem.place is None:
        below = [f"     {problem.hint}"] if problem.hint else []
    else:
        text = f"{problem.place}  {text}"
        below = _excerpt(problem.place, problem.hint, width)
    return [*_headline(text, problem.code, width), *below]


def _headline(text: str, code: str, width: int | None) -> list[str]:
    room = (width or WIDTH) - len(code) - 2
    if width is None:
        return [f"{text.ljust(room)}  {code}"]
    lines = textwrap.wrap(
        text, room, subsequent_indent="     ", break_on_hyphens=False, break_long_words=False
    )
    return [f"{lines[0].ljust(room)}  {code}", *lines[1:]]


def _excerpt(place: Place, hint: str, width: int | None) -> list[str]:
    """Show the line with its mark; with a `width`, what it cannot hold of the line is cut."""
    room = EXCERPT_CHARS_MAX if width is None else min(width - len(_GUTTER) - 2, EXCERPT_CHARS_MAX)
    line, start = _clipped(place.text, place.column - 1, room)
    marked = line[start : start + max(place.length, 1)] or " "
    pad = "".join("\t" if char == "\t" else " " * _cells(char) for char in line[:start])
    mark = f"{_GUTTER}{pad}{'^' * max(sum(map(_cells, marked)), 1)}"
    lines = [f"{place.line:4d} | {line}".rstrip()]
    if width is None or len(mark.expandtabs()) + 1 + len(hint) <= width:
        return [*lines, f"{mark} {hint}".rstrip()]
    hints = textwrap.wrap(hint, width, initial_indent=_HINT, subsequent_indent=_HINT)
    return [*lines, mark, *hints]


def _clipped(line: str, start: int, room: int) -> tuple[str, int]:
    """Cut a window out of a long line; return the line and where the mark now begins."""
    left = max(0, min(start - room // 3, len(line) - room))
    window = line[left : left + room]
    clean = "".join(char if char.isprintable() or char == "\t" else "·" for char in window)
    head = "…" if left else ""
    tail = "…" if left + room < len(line) else ""
    return head + clean + tail, min(start, len(line)) - left + len(head)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
