"""Compares what came of a case with what was expected, and says in words what differs.

Invariant: only the columns that an expected row names are compared; rows and rejects are compared
in number and order, so one too many is a difference. Rows of a keyed table are compared by their
key, in any order, where each expected one names it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from penstock.app.spec_tests.reading import Case
from penstock.app.spec_tests.running import CaseResult


def differences(case: Case, found: CaseResult) -> list[str]:
    """List what differs, in sentences; none when all is as expected."""
    sentences = [f"{table} is parked: {error.line}" for table, error in found.errors.items()]
    for table, expected in case.rows.items():
        rows, keys = found.rows.get(table, ()), found.keys.get(table, ())
        if keys and all(name in wanted for wanted in expected for name in keys):
            sentences += _rows_by_key(table, keys, expected, rows)
        else:
            sentences += _rows(table, expected, rows)
    for table in sorted({*case.rejected, *found.rejected}):
        wanted, got = list(case.rejected.get(table, ())), list(found.rejected.get(table, ()))
        if wanted != got:
            sentences.append(f"{table}: rejected are {_listed(got)}, expected {_listed(wanted)}")
    return sentences


def _rows(
    table: str, expected: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    if len(expected) != len(found):
        yield f"{table}: {len(found)} rows landed, expected {len(expected)}"
    for number, (wanted, row) in enumerate(zip(expected, found, strict=False), 1):
        yield from _columns(f"{table} row {number}", wanted, row)


def _rows_by_key(
    table: str,
    keys: Sequence[str],
    expected: Sequence[Mapping[str, Any]],
    found: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    left = list(found)
    for wanted in expected:
        place = next(
            (n for n, row in enumerate(left) if all(matches(row[k], wanted[k]) for k in keys)), None
        )
        if place is None:
            yield f"{table}: there is no row with {_named(keys, wanted)}"
        else:
            yield from _columns(f"{table} row with {_named(keys, wanted)}", wanted, left.pop(place))
    for row in left:
        yield f"{table}: the row with {_named(keys, row)} is not expected"


def _named(keys: Sequence[str], row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_plain(row[name])!r}" for name in keys)


def _columns(where: str, wanted: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    for column, value in wanted.items():
        if column not in row:
            yield f"{where}: there is no column {column}"
        elif not matches(row[column], value):
            yield f"{where}: {column} is {_plain(row[column])!r}, expected {value!r}"


def matches(found: Any, expected: Any) -> bool:
    """Return whether a value of a row is what a case expects of it.

    Numbers are compared as decimals, times as moments, bytes as Base64, structs by the fields that
    are named.
    """
    match found:
        case bool() | None:
            return found is expected
        case int() | float() | Decimal():
            try:
                number = not isinstance(expected, bool) and Decimal(str(expected))
                return number is not False and Decimal(str(found)) == number
            except InvalidOperation:
                return False
        case datetime():
            return _moment(found) == _moment(expected)
        case list() | tuple():
            pairs = isinstance(expected, list) and len(found) == len(expected)
            return pairs and all(map(matches, found, expected))
        case dict():
            named = isinstance(expected, dict) and expected.keys() <= found.keys()
            return named and all(matches(found[key], expected[key]) for key in expected)
        case _:
            return bool(_plain(found) == expected)


def _plain(value: Any) -> Any:
    """Return a value as a case would write it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case _:
            return value


def _moment(value: Any) -> datetime | None:
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return at if at.tzinfo is None else at.astimezone(tz=None)


def _listed(codes: Sequence[str]) -> str:
    return ", ".join(codes) or "none"
