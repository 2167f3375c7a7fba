"""The small languages inside a spec: names, patterns, `into`, `partition_by`, brokers, times.

Invariants: every reader is pure, gives the canonical form, and raises `MalformedError` with a
code, a sentence and a hint; no reader takes more than its text is long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from penstock.core.type_text import parse_type
from penstock.spec.problems import listed, nearest, shown

NAME_CHARS_MAX = 128
PATTERN_CHARS_MAX = 250
PARTS_MIN = 2
PARTS_MAX = 8
PORT_MAX = 65_535
TYPE_CHARS_MAX = 4000
REPEATS_MAX = 8
ARGUMENT_MAX = 2**31 - 1

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
_BROKER = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_TRANSFORM = re.compile(r"([a-z]+)\(\s*(?:([0-9]{1,10})\s*,\s*)?([^\s(),'\"]+)\s*\)")
_COLUMN = re.compile(r"[^\s(),'\"]+")
_PATTERN_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<repeat>[*+]|\{(?:(?P<exactly>\d+)|\d*,\d*)\})|.", re.DOTALL
)
_PLAIN_TRANSFORMS = ("identity", "year", "month", "day", "hour")
_SIZED_TRANSFORMS = ("bucket", "truncate")


class MalformedError(ValueError):
    """A text does not follow its language.

    `below` leads to the setting that is meant inside of the one that is read.
    """

    def __init__(
        self, code: str, message: str, hint: str = "", *, below: tuple[str | int, ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.below = below


BRANCH_SIGN = "@"
"""The sign between a table's name and its branch, in names such as `lake.bronze.orders@new`."""
MAIN = "main"

Reader = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One entry of `partition_by`: a transform of a column, with its argument where it has one."""

    transform: str
    column: str
    argument: int | None = None

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        argument = "" if self.argument is None else f"{self.argument}, "
        return f"{self.transform}({argument}{self.column})"


def form(pattern: str | re.Pattern[str], code: str, fault: str, hint: str = "") -> Reader:
    """Return the reader of texts that match a pattern as a whole; "…" in `fault` is the text."""
    whole = re.compile(pattern)

    def read(text: str) -> str:
        if whole.fullmatch(text) is None:
            raise MalformedError(code, fault.replace("…", shown(text), 1), hint)
        return text

    return read


pipeline_name = form(
    "[a-z_][a-z0-9_-]{0,63}",
    "P110",
    "… is not a pipeline's name",
    "write a-z, 0-9, _ and -, not beginning with a digit or -, at most 64",
)
publication_name = form(
    "[a-z_][a-z0-9_-]{0,63}",
    "P110",
    "… is not a publication's name",
    "write a-z, 0-9, _ and -, not beginning with a digit or -, at most 64",
)
part_name = form(
    "[a-z_][a-z0-9_]{0,127}",
    "P110",
    "… is not a name",
    "write a-z, 0-9 and _, not beginning with a digit, at most 128",
)
group_name = form(
    "[A-Za-z_][A-Za-z0-9_]*", "P110", "… is not a name", "write letters, digits and _"
)
topic_name = form(
    _TOPIC, "P110", "… is not a topic's name", "a pattern is written { pattern: '…' }"
)
one_topic = form(
    _TOPIC,
    "P110",
    "… is not a topic's name",
    "write the name of one topic: letters, digits, . _ and -, at most 249",
)
column_path = form(_COLUMN, "P110", "… is not a column's name")
branch_name = form(
    "[A-Za-z0-9_][A-Za-z0-9_-]{0,127}",
    "P110",
    "… is not a branch's name",
    "write letters, digits, _ and -",
)


def table_name(text: str, *, placeholders: bool) -> str:
    """Read `<catalog>.<namespace…>.<table>`; parts after the catalog may hold `{group}`."""
    parts = text.split(".")
    if not PARTS_MIN <= len(parts) <= PARTS_MAX:
        raise MalformedError(
            "P110",
            f"{shown(text)} is not a table's name",
            f"write <catalog>.<namespace>.<table>, of at most {PARTS_MAX} parts",
        )
    for index, part in enumerate(parts):
        if not placeholders and PLACEHOLDER.search(part):
            raise MalformedError(
                "P110", f"{shown(text)}: this name is fixed", "write it without { }"
            )
        part_name(PLACEHOLDER.sub("_", part) if index else part)
    return text


def is_topic_name(text: str) -> bool:
    """Return whether Kafka allows a topic of this name."""
    return _TOPIC.fullmatch(text) is not None


def pattern(text: str) -> str:
    """Read a Python pattern, bounded in length and without repeats inside of repeats."""
    if not text:
        raise MalformedError("P113", "a pattern needs at least one character")
    if len(text) > PATTERN_CHARS_MAX:
        raise MalformedError(
            "P113",
            f"the pattern has {len(text)} characters, and {PATTERN_CHARS_MAX} are allowed",
            "write several shorter ones",
        )
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise MalformedError("P113", f"{shown(text)} is not a Python pattern: {error}") from error
    if _repeats_inside_repeats(text):
        raise MalformedError(
            "P113",
            f"{shown(text)} repeats a group that repeats inside: a match may take forever",
            "write one repeat, such as [a-z.]+ for (?:[a-z]+\\.)+",
        )
    return text


@lru_cache(maxsize=4096)
def compiled(text: str) -> re.Pattern[str]:
    """Compile a pattern once, however many topics it is tried on."""
    return re.compile(text)


def matcher(source: str) -> re.Pattern[str]:
    """Return the compiled pattern of a `from`; an exact name matches itself only."""
    return compiled(re.escape(source) if is_topic_name(source) else source)


def matches(source: str, topic: str) -> re.Match[str] | None:
    """Match a rule's `from` with the whole of a topic's name."""
    return matcher(source).fullmatch(topic)


def partition_field(text: str) -> PartitionField:
    """Read `column`, `day(column)`, `bucket(16, column)`."""
    text = text.strip()
    if _COLUMN.fullmatch(text):
        return PartitionField("identity", text)
    found = _TRANSFORM.fullmatch(text)
    if found is None:
        raise MalformedError(
            "P115", f"{shown(text)} is not a partition field", "such as day(ts) or bucket(16, id)"
        )
    name, argument, column = found[1], found[2], found[3]
    if name in _PLAIN_TRANSFORMS:
        if argument is None:
            return PartitionField(name, column)
        raise MalformedError("P115", f"{name} takes a column only", f"write {name}({column})")
    if name in _SIZED_TRANSFORMS:
        if argument and 1 <= int(argument) <= ARGUMENT_MAX:
            return PartitionField(name, column, int(argument))
        fact = "takes a number from 1 to 2147483647 and a column"
        raise MalformedError("P115", f"{name} {fact}", f"write {name}(16, {column})")
    transforms = (*_PLAIN_TRANSFORMS, *_SIZED_TRANSFORMS)
    near = nearest(name, transforms)
    argument = f"{argument}, " if argument else ""
    hint = f"write {near}({argument}{column})" if near else f"known are {listed(transforms)}"
    raise MalformedError("P115", f"{shown(name)} is not a partition transform", hint)


def sort_field(text: str) -> str:
    """Read a partition field, perhaps with `asc` or `desc` after it; return its canonical form."""
    term, _, direction = text.strip().rpartition(" ")
    if direction.lower() in ("asc", "desc") and term:
        return f"{partition_field(term)} {direction.lower()}"
    return str(partition_field(text))


def column_type(text: str) -> str:
    """Read the text of a type; return its canonical form."""
    if len(text) > TYPE_CHARS_MAX:
        raise MalformedError("P116", f"a type is written in at most {TYPE_CHARS_MAX:,} characters")
    try:
        return str(parse_type(text))
    except ValueError as error:
        raise MalformedError("P116", str(error)) from error


def brokers(text: str) -> str:
    """Read `host:port,host:port`; ports may be left out."""
    for address in text.split(","):
        found = _BROKER.fullmatch(address.strip())
        if found is None or (found[1] and not 1 <= int(found[1]) <= PORT_MAX):
            raise MalformedError(
                "P125",
                f"{shown(address)} is not a broker's address",
                f"write host:port,host:port, with ports of at most {PORT_MAX}",
            )
    return ",".join(address.strip() for address in text.split(","))


def point_in_time(text: str) -> datetime:
    """Read an ISO time with offset; return it in UTC."""
    with suppress(ValueError, OverflowError):  # no time, or one outside of the calendar
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    raise MalformedError(
        "P125",
        f"{shown(text)} is not a place to start",
        "write earliest, latest, 2026-11-01T00:00:00Z, or { topic: { 0: 1200 } }",
    )


def time_zone(text: str) -> str:
    """Read the name of a time zone, such as Europe/Berlin or UTC."""
    try:
        return ZoneInfo(text).key
    except (OSError, ValueError, KeyError) as error:
        raise MalformedError(
            "P125", f"{shown(text)} is not a time zone", "such as UTC or Europe/Berlin"
        ) from error


def _repeats_inside_repeats(text: str) -> bool:
    """Return whether a repeated group holds a repeat of varying length: `(a+)*`, `(a|b*c){2,}`."""
    varying = [False]  # for each open group: does it hold a repeat of varying length?
    closed = False  # did the group that was just closed hold one?
    for found in _PATTERN_TOKEN.finditer(text):
        repeats = found["repeat"] is not None and int(found["exactly"] or REPEATS_MAX + 1)
        if closed and repeats > REPEATS_MAX:
            return True
        varying[-1] |= found["repeat"] is not None and found["exactly"] is None
        closed = False
        if found[0] == "(":
            varying.append(False)
        if found[0] == ")" and len(varying) > 1:
            closed = varying.pop()
            varying[-1] |= closed
    return False
