"""The transforms of kafka-delta-ingest, JMESPath and what it adds, become DuckDB's SQL.

Invariants:
- what is translated means the same; what is not known is not translated (None), never guessed;
- fields that an expression reads get a type, which it asks for: `schema.hints` declares them.

Source: JMESPath specification, "Identifiers", "Index expressions", "Functions"; kafka-delta-ingest,
`src/transforms.rs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from penstock.spec.language.expressions import place, quoted

_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_]\w*|\"(?:[^\"\\]|\\.)*\")|`(?P<json>(?:[^`\\]|\\.)*)`"
    r"|'(?P<raw>(?:[^'\\]|\\.)*)'|(?P<index>\[\d+\])|(?P<sign>[().,]))"
)
_PLAIN = re.compile(r"[A-Za-z_]\w*")
META: Mapping[str, str] = {
    "kafka.topic": "_kafka_topic",
    "kafka.partition": "_kafka_partition",
    "kafka.offset": "_kafka_offset",
    "kafka.timestamp": "_kafka_timestamp",
}
"""What kafka-delta-ingest knows of a message, and the column here; its time stamp is in nanoseconds
for lack of a type, ours is one.
"""
TEXT, LONG = "string", "long"


@dataclass(frozen=True, slots=True)
class Translated:
    """An expression in SQL, and the types of the fields it reads, by dotted name."""

    sql: str
    hints: Mapping[str, str]


class _UnknownError(Exception):
    """The expression holds what is not translated."""


def translated(text: str) -> Translated | None:
    """Translate one expression; return None where part of it is unknown."""
    meta = META.get(text.strip())
    if meta is not None:
        return Translated(meta, {})
    try:
        reading = _Reading(_tokens(text))
        sql = reading.expression(TEXT)
        if reading.at < len(reading.tokens):
            return None
    except (_UnknownError, ValueError, RecursionError):
        return None  # not translated, malformed, or deeper than this process reads
    return Translated(sql, reading.hints)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens = [*_TOKEN.finditer(text)]
    if _TOKEN.sub("", text).strip():
        raise _UnknownError
    return [(str(each.lastgroup), each[str(each.lastgroup)]) for each in tokens]


@dataclass(slots=True)
class _Reading:
    tokens: list[tuple[str, str]]
    hints: dict[str, str] = field(default_factory=dict)
    at: int = 0

    def expression(self, wanted: str) -> str:
        kind, text = self._next()
        match kind:
            case "raw":
                return quoted(text.replace("\\'", "'"))
            case "json":
                return _constant(text)
            case "name" if self._peek() == ("sign", "("):
                return self._call(text)
            case "name":
                return self._path(text, wanted)
            case _:
                raise _UnknownError

    def _path(self, first: str, wanted: str) -> str:
        names = [_name(first)]
        inside = ""
        while self._peek()[0] == "index" or self._peek() == ("sign", "."):
            kind, text = self._next()
            if kind == "index":
                inside += f"[{int(text[1:-1]) + 1}]"  # lists count from 1 in SQL
                continue
            kind, text = self._next()
            if kind != "name" or inside:
                raise _UnknownError  # a member of an element: its list needs a type of its own
            names.append(_name(text))
        if any(not _PLAIN.fullmatch(name) for name in names) or inside.count("[") > 1:
            raise _UnknownError  # hints name fields by dots
        path = ".".join(names)
        type_ = f"list<{wanted}>" if inside else wanted
        if self.hints.setdefault(path, type_) != type_:
            raise _UnknownError
        return place(path) + inside

    def _call(self, name: str) -> str:
        if name not in _FUNCTIONS:
            raise _UnknownError
        wanted, count, write = _FUNCTIONS[name]
        self._next()
        arguments: list[str] = []
        while self._peek() != ("sign", ")"):
            if arguments and self._next() != ("sign", ","):
                raise _UnknownError
            arguments.append(self.expression(wanted))
        self._next()
        if not arguments or len(arguments) != (count or len(arguments)):
            raise _UnknownError
        return write(*arguments)

    def _peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        if not token[0]:
            raise _UnknownError
        self.at += 1
        return token


def _name(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def _constant(text: str) -> str:
    try:
        value = json.loads(text.replace("\\`", "`"))
    except ValueError:
        value = text.strip()
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str():
            return quoted(value)
        case _:
            raise _UnknownError


def _substr(text: str, skipped: str, taken: str) -> str:
    if not (skipped.isdigit() and taken.isdigit()):
        raise _UnknownError
    return f"substr({text}, {int(skipped) + 1}, {taken})"


def _not_null(*arguments: str) -> str:
    return f"coalesce({', '.join(arguments)})"


def _iso8601(count: str, per_second: int) -> str:
    """Write as chrono does: without a fraction where it is zero, else three or six digits."""
    whole = f"cast(trunc({count}) as bigint)" if "(" in count else count
    factor = 1_000_000 // per_second
    micros = whole if factor == 1 else f"{whole} * {factor}"
    text = f"strftime(make_timestamp({micros}), '%Y-%m-%dT%H:%M:%S{{}}Z')"
    if per_second == 1:
        return text.format("")
    return f"replace(replace({text.format('.%f')}, '000Z', 'Z'), '.000Z', 'Z')"


_FUNCTIONS: Mapping[str, tuple[str, int, Callable[..., str]]] = {
    "substr": (TEXT, 3, _substr),
    "epoch_seconds_to_iso8601": (LONG, 1, partial(_iso8601, per_second=1)),
    "epoch_millis_to_iso8601": (LONG, 1, partial(_iso8601, per_second=1000)),
    "epoch_micros_to_iso8601": (LONG, 1, partial(_iso8601, per_second=1_000_000)),
    "to_number": (TEXT, 1, "try_cast({} as double)".format),
    "not_null": (TEXT, 0, _not_null),
    "starts_with": (TEXT, 2, "starts_with({}, {})".format),
    "ends_with": (TEXT, 2, "ends_with({}, {})".format),
}
"""By name: the type that arguments are wanted in, how many (0: one or more), and what writes the
call.
"""
