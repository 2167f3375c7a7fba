"""Compares what came of a case with what was expected, and says in words what differs.

Invariant: only the columns that an expected row names are compared; rows and rejects are compared
in number and order, so one too many is a difference.
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
    sentences = [
        f"{table} is parked: {error.code}  {error.message}" for table, error in found.errors.items()
    ]
    for table, expected in case.rows.items():
        sentences += _rows(table, expected, found.rows.get(table, ()))
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
        for column, value in wanted.items():
            if column not in row:
                yield f"{table} row {number}: there is no column {column}"
            elif not matches(row[column], value):
                got = plain(row[column])
                yield f"{table} row {number}: {column} is {got!r}, expected {value!r}"


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
            return bool(plain(found) == expected)


def plain(value: Any) -> Any:
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
