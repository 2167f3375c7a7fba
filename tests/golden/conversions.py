"""The golden conversions: JSON text, column type, and the value that lands or the code.

`conversions.jsonl` has one case a line. Tests of the converter and of both table formats, and the
page docs/reference/conversions.md, are made from it. Values are written in it by `shown`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, time
from decimal import Context
from decimal import Decimal as Exact
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import UUID

from penstock.core.schema import Decimal, Kind, List, Map, Struct, Type, type_from_json
from penstock.rows.reject_codes import CODE_INFO, RejectCode

FILE = Path(__file__).with_name("conversions.jsonl")
TEXT_LENGTH_MAX = 48


@dataclass(frozen=True, slots=True)
class Case:
    """Hold one line: `lands` is meant when `code` is None."""

    type: Type
    json: str
    lands: Any
    code: RejectCode | None

    @property
    def record(self) -> bytes:
        """Return a record whose column `a` has the value."""
        return f'{{"a":{self.json}}}'.encode()


def cases() -> list[Case]:
    """Read all cases in order."""
    return [
        Case(
            type_from_json(line["type"]),
            line["json"],
            line.get("lands"),
            RejectCode(line["code"]) if "code" in line else None,
        )
        for line in map(json.loads, FILE.read_text("utf-8").splitlines())
    ]


def shown(value: Any, type_: Type) -> Any:
    """Write a value as plain JSON that differs from every other value of its type."""
    match type_:
        case _ if value is None:
            return None
        case Struct(fields):
            return {field.name: shown(value[field.name], field.type) for field in fields}
        case List(element):
            return [shown(item, element) for item in value]
        case Map(_, member):
            pairs = value.items() if isinstance(value, dict) else value
            return {str(key): shown(item, member) for key, item in pairs}
        case Kind.FLOAT | Kind.DOUBLE:
            return repr(float(value))
        case Decimal(_, scale):
            written = Exact(value).quantize(Exact(1).scaleb(-scale), context=Context(prec=60))
            return f"{written or abs(written):f}"
        case Kind.UUID:
            return value.bytes.hex() if isinstance(value, UUID) else value.hex()
        case Kind.TIMESTAMP_NS | Kind.TIMESTAMPTZ_NS:  # pandas gives them, with their last digits
            return value.isoformat(timespec="nanoseconds")
        case _:
            return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, date | time) else value


def page() -> Iterator[str]:
    """Write the lines of docs/reference/conversions.md."""
    yield "# Conversions"
    yield ""
    yield "Written by `make docs` from `tests/golden/conversions.jsonl`; do not edit."
    yield ""
    yield "What a JSON value becomes in a column of each type, or the code with which its record is"
    yield "rejected. The converter, Iceberg tables and Delta tables are tested with the same lines."
    yield "Bytes and UUIDs are shown in hexadecimal digits."
    for type_, of_type in groupby(cases(), key=lambda case: str(case.type)):
        yield ""
        yield f"## `{type_}`"
        yield ""
        yield "| JSON | lands as | or is rejected |"
        yield "|---|---|---|"
        for case in of_type:
            yield f"| {_cell(case.json)} | {_lands(case)} | {_refused(case)} |"
    yield ""


def _lands(case: Case) -> str:
    return _cell(json.dumps(case.lands)) if case.code is None else ""


def _refused(case: Case) -> str:
    return "" if case.code is None else f"{case.code}: {CODE_INFO[case.code].fact}"


def _cell(text: str) -> str:
    printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    if len(printable) > TEXT_LENGTH_MAX:
        printable = f"{printable[: TEXT_LENGTH_MAX - 1]}…"
    return f"`{printable.replace('|', chr(92) + '|')}`"
