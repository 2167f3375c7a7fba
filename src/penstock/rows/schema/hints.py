"""Derives from a sample of records the hints of a drafted spec, which inference cannot find.

Inference (inference.py) takes a text for a text and a number for a long or a double. This module
examines the values for a type that holds them all: a timestamp, a decimal, a map with keys that are
data.

Invariants:
- a type is chosen only where the converter (scalars.py) takes every value of the sample;
- of a place with values of several kinds, the kind of most values is chosen, and `why` says so: the
  others do not fit it;
- a place that inference gets right by itself, whatever record comes first, gets no hint;
- it is `mixed` where values of a place do not fit one type, in whatever order they come.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.core.names import folded
from penstock.core.schema import Decimal, Field, Kind, List, Map, Struct, Type
from penstock.core.schema_join import is_known
from penstock.core.type_text import is_writable
from penstock.rows.cast.scalars import scalar_cast
from penstock.rows.decode.json.exact_text import digits_of, is_double
from penstock.rows.decode.json.parser import JsonNumber, is_empty
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError
from penstock.rows.schema.inference import is_usable_name

Format = Literal["iceberg", "delta"]
Path = str

PRECISIONS = (18, 28, 38)
HEADROOM_DIGITS = 4
KEYS_MIN, KEYS_SHARE_MAX = 16, 0.2
"""Keys are data where so many are seen, and an object has at most such a share of them."""
ROOT_KEYS_MIN, ROOT_SHARE_MAX = 64, 0.05
"""The same for the keys of records, which are no columns then: surer, for it costs more."""
OBJECTS_MIN = 3
MONEY_SCALE = 2
MOSTLY_SHARE_MAX = 0.1
"""Numbers are mostly integers where at most such a share of them is none."""
TEXT_CHARS_MAX = 3000

_KINDS = {bool: "boolean", JsonNumber: "number", str: "text", dict: "object", list: "array"}
_OPTIONS = RowOptions(source_columns={})
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_MONEY = re.compile(
    r"amount|price|total|cost|fee|tax|vat|balance|paid|gross|net|money|discount|value|charge|payment"
    r"|salary|budget|revenue|refund|credit|debit|sum|rate",
    re.IGNORECASE,
)
_VERSION = re.compile(r"ver|release|build|code|number|ip", re.IGNORECASE)
_TIME = re.compile(
    r"(?:^|[_-])(?:ts|time|timestamp|epoch|at|on|date|created|updated|modified|ms|millis|us|micros|s|sec"
    r"|secs|seconds)$|(?:At|On|Ts|Time|Timestamp|Date|Epoch|Ms|Millis|Sec|Seconds)$"
    r"|^(?:created|updated|modified)"
)
_SECOND_MIN, _SECOND_MAX = 946_684_800, 4_102_444_800  # 2000-01-01 and 2100-01-01
_UNITS = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000}
_DATA_KEY = re.compile(
    r"[0-9]+|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9]{4}-[0-9]{2}-[0-9]{2}.*|\S+@\S+"
)


@dataclass(frozen=True, slots=True)
class Hint:
    """The type that a place is declared with, and why, in a few words without values."""

    type: Type
    why: str


@dataclass(frozen=True, slots=True)
class Hinted:
    """Hints by path (core/schema.py, `with_hints`).

    `counts` are numbers that seem to count a unit since 1970, by path; each has a hint as long.
    `keyed` is set when the keys of the records themselves are data, so that no columns fit them.
    `mixed` is set when some values do not fit their columns, whichever record the table is
    created for.
    """

    hints: Mapping[Path, Hint] = field(default_factory=dict)
    counts: Mapping[Path, str] = field(default_factory=dict)
    keyed: bool = False
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """The type of a place and the hints at it and within; `mixed` where not all fits it."""

    type: Type
    hints: Mapping[Path, Hint] = field(default_factory=dict)
    counts: Mapping[Path, str] = field(default_factory=dict)
    mixed: bool = False

    def declared(self, path: Path, why: str, *, mixed: bool = False) -> _Found:
        """Return the hints with one for the whole type, in place of those within."""
        text = str(self.type)
        if not is_known(self.type) or not is_writable(self.type) or len(text) > TEXT_CHARS_MAX:
            return self
        return _Found(self.type, {path: Hint(self.type, why)}, mixed=mixed or self.mixed)


def hints_for(records: Sequence[Mapping[str, Any]], to: Format) -> Hinted:
    """Find the hints of records, as `parse_object` reads them, for tables of a format."""
    if _keys_are_data(records, keys_min=ROOT_KEYS_MIN, share_max=ROOT_SHARE_MAX):
        values = (value for record in records for value in record.values())
        if not _examine(values, "", to).mixed:
            return Hinted(keyed=True)
    found = _object(records, "", to)
    return Hinted(found.hints, found.counts, mixed=found.mixed)


def _examine(values: Iterable[Any], path: Path, to: Format) -> _Found:
    given = [value for value in values if value is not None]
    if all(map(is_empty, given)):
        return _Found(Kind.UNKNOWN)
    kinds: dict[str, list[Any]] = {}
    for value in given:
        kinds.setdefault(_KINDS[type(value)], []).append(value)
    if len(kinds) == 1:
        ((kind, among),) = kinds.items()
        return _of_kind(kind, among, path, to)
    together = _together(kinds)
    if together is not None:
        return _Found(together).declared(path, "some of them as text")
    return _mixed(kinds, path, to)


def _of_kind(kind: str, values: Sequence[Any], path: Path, to: Format) -> _Found:
    match kind:
        case "object":
            return _map_or_object(values, path, to)
        case "array":
            inner = _examine((item for value in values for item in value), f"{path}[]", to)
            return _Found(List(inner.type), inner.hints, mixed=inner.mixed)
        case "text":
            return _text(values, path, to)
        case "number":
            return _number(values, path)
        case _:
            return _Found(Kind.BOOLEAN)


def _mixed(kinds: Mapping[str, Sequence[Any]], path: Path, to: Format) -> _Found:
    """Choose the kind of most values, text before others."""
    counted = sorted(kinds, key=lambda kind: (-len(kinds[kind]), kind != "text"))
    why = "mixed: " + ", ".join(f"{len(kinds[kind])} {kind}" for kind in counted)
    for kind in counted:
        found = _of_kind(kind, kinds[kind], path, to).declared(path, why, mixed=True)
        if path in found.hints:
            return found
    return _Found(Kind.STRING).declared(path, why, mixed=True)


def _map_or_object(values: Sequence[Mapping[str, Any]], path: Path, to: Format) -> _Found:
    if _keys_are_data(values):
        inner = _examine((item for value in values for item in value.values()), f"{path}{{}}", to)
        found = _Found(Map(Kind.STRING, inner.type)).declared(path, "its keys are data")
        if path in found.hints and not inner.mixed:
            return found
    return _object(values, path, to)


def _keys_are_data(
    objects: Sequence[Mapping[str, Any]],
    *,
    keys_min: int = KEYS_MIN,
    share_max: float = KEYS_SHARE_MAX,
) -> bool:
    """Return whether keys change from object to object, or are numbers, days, UUIDs, addresses."""
    keys = Counter(key for each in objects for key in each)
    full = sum(1 for each in objects if each)
    if full < OBJECTS_MIN or len(keys) <= 1:
        return False
    if all(_DATA_KEY.fullmatch(key) for key in keys):
        return True
    return len(keys) >= keys_min and keys.total() <= share_max * len(keys) * full


def _object(values: Sequence[Mapping[str, Any]], path: Path, to: Format) -> _Found:
    fields: dict[str, Field] = {}
    hints: dict[Path, Hint] = {}
    counts: dict[Path, str] = {}
    mixed = False
    for name in dict.fromkeys(name for value in values for name in value):
        if not is_usable_name(name):
            continue
        place = f"{path}.{name}" if path else name
        inner = _examine((value.get(name) for value in values), place, to)
        if "[" in name:  # in a path it would read as a list: no hint can name it
            mixed |= inner.mixed or bool(inner.hints)
            continue
        if is_known(inner.type):
            fields.setdefault(folded(name), Field(name, inner.type))
        hints |= inner.hints
        counts |= inner.counts
        mixed |= inner.mixed
    return _Found(Struct(tuple(fields.values())), hints, counts, mixed)


def _text(texts: Sequence[str], path: Path, to: Format) -> _Found:
    for kind, why in (
        (Kind.DATE, "dates"),
        (Kind.TIMESTAMPTZ, "times with a zone"),
        (Kind.TIMESTAMP, "times without a zone"),
    ):
        if _fits(kind, texts):
            return _Found(kind).declared(path, why)
    if to == "iceberg" and _fits(Kind.UUID, texts) and all(text == text.lower() for text in texts):
        return _Found(Kind.UUID).declared(path, "UUIDs")
    if _is_money(texts, path):
        found = _decimal(texts, scale_min=MONEY_SCALE)
        if found is not None:
            return _Found(found).declared(path, f"numbers as text; {_room(texts, found)}")
    return _Found(Kind.STRING)


def _is_money(texts: Sequence[str], path: Path) -> bool:
    """Return whether texts are amounts: by their names, or as all have two digits after the point.

    Texts such as 1.10 may be versions, and 007 is no number.
    """
    if not all(map(_PLAIN.fullmatch, texts)) or not any("." in text for text in texts):
        return False
    name = path.rpartition(".")[2]
    if _MONEY.search(name):
        return True
    cents = all(len(text.partition(".")[2]) == MONEY_SCALE for text in texts)
    return cents and len(set(texts)) > 1 and not _VERSION.search(name)


def _number(numbers: Sequence[str], path: Path) -> _Found:
    whole = [number for number in numbers if _PLAIN.fullmatch(number) and "." not in number]
    if len(whole) == len(numbers) and _fits(Kind.LONG, numbers):
        unit = _unit(numbers, path)
        if unit is None:
            return _Found(Kind.LONG)
        found = _Found(Kind.LONG).declared(path, f"{unit} since 1970, it seems")
        return _Found(Kind.LONG, found.hints, {path: unit})
    if all(map(is_double, numbers)) and _fits(Kind.DOUBLE, numbers) and len(whole) < len(numbers):
        found = _Found(Kind.DOUBLE)
        return found.declared(path, _fractions(len(whole), len(numbers))) if whole else found
    exact = _decimal(numbers)
    if exact is not None:
        why = "a double would round them" if len(whole) < len(numbers) else "beyond 64 bits"
        return _Found(exact).declared(path, f"{why}; {_room(numbers, exact)}")
    if len(whole) < len(numbers):
        fits = _fits(Kind.DOUBLE, numbers)
        why = "rounded: more digits than a decimal has" if fits else "some are beyond a double"
        return _Found(Kind.DOUBLE).declared(path, why, mixed=not fits)
    return _Found(Kind.LONG).declared(path, "some are beyond 64 bits", mixed=True)


def _fractions(whole: int, count: int) -> str:
    """Return how many numbers are no plain integers; that they are few may show a mistake."""
    others = f"{count - whole:,} of {count:,} have a fraction or exponent"
    return f"mostly long: {others}" if count - whole <= MOSTLY_SHARE_MAX * count else others


def _unit(numbers: Sequence[str], path: Path) -> str | None:
    """Return the unit of numbers since 1970, by their name and if all are in 2000 to 2100."""
    if _TIME.search(path.rpartition(".")[2]) is None:
        return None
    counts = [int(number) for number in numbers]
    for unit, per_second in _UNITS.items():
        if _SECOND_MIN * per_second <= min(counts) and max(counts) < _SECOND_MAX * per_second:
            return unit
    return None


def _together(kinds: Mapping[str, Sequence[Any]]) -> Type | None:
    """Return the type that takes values of two kinds, some of them written as text."""
    if kinds.keys() == {"boolean", "text"} and _fits(Kind.BOOLEAN, kinds["text"]):
        return Kind.BOOLEAN
    if kinds.keys() == {"number", "text"} and all(map(_PLAIN.fullmatch, kinds["text"])):
        numbers = [*kinds["number"], *kinds["text"]]
        if _fits(Kind.LONG, numbers):
            return Kind.LONG
        return _decimal(numbers) or (Kind.DOUBLE if _fits(Kind.DOUBLE, numbers) else None)
    return None


def _decimal(numbers: Sequence[str], *, scale_min: int = 0) -> Decimal | None:
    """Return the decimal that holds all of them, with digits to spare where there are some."""
    whole, needed = (max(counts) for counts in zip(*map(digits_of, numbers), strict=True))
    if whole + needed > PRECISIONS[-1]:
        return None
    plain = [each for each in numbers if _PLAIN.fullmatch(each)]
    written = max((len(each.partition(".")[2]) for each in plain), default=0)
    scale = min(max(needed, written, scale_min), PRECISIONS[-1] - whole)
    wide = (each for each in PRECISIONS if whole + HEADROOM_DIGITS + scale <= each)
    return Decimal(next(wide, PRECISIONS[-1]), scale)


def _room(numbers: Sequence[str], found: Decimal) -> str:
    whole = max(digits_of(number)[0] for number in numbers)
    room = found.precision - found.scale
    return f"up to {room} digits before the point ({whole} were seen)"


def _fits(kind: Kind, values: Iterable[Any]) -> bool:
    convert = scalar_cast(kind, _OPTIONS)
    try:
        for value in values:
            convert(value)
    except RejectError:
        return False
    return True
