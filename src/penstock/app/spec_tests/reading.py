"""Reads a file of cases: the records to send, and the rows and rejects to expect.

Invariant: what is not known is refused with its line, as in a spec.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Schema, Struct
from penstock.core.type_text import parse_type
from penstock.spec.problems import KeyPath
from penstock.spec.text.yaml12 import Document, read

SENT_MS = 1_767_225_600_000
_FILE_KEYS = {"cases", "tables"}
_CASE_KEYS = {"name", "topic", "records", "expect", "rejected"}
_RECORD_KEYS = {"$value", "$bytes", "$key", "$headers", "$partition", "$timestamp"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One record to send."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    timestamp_ms: int = SENT_MS


@dataclass(frozen=True, slots=True)
class Case:
    """Records by topic, and by table the expected rows and codes of rejects.

    `rows` name some columns of each row; `line` is the line of the case, from 1.
    """

    name: str
    line: int
    records: Mapping[str, tuple[Sample, ...]]
    rows: Mapping[str, tuple[Mapping[str, Any], ...]]
    rejected: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Cases:
    """A file of cases; `tables` are columns of tables that the spec does not create."""

    cases: tuple[Case, ...]
    tables: Mapping[str, Schema] = field(default_factory=dict)


def read_cases(path: Path) -> Cases:
    """Read a file. Raises InvalidError (P173) at the first thing that is wrong, with its line."""
    try:
        text = path.read_text()
    except OSError as error:
        raise InvalidError(
            f"{path} cannot be read: {error.strerror}",
            code="P173",
            hint="write cases next to the spec; how:  penstock explain P173",
        ) from error
    return _Reading(str(path), read(text)).cases()


class _Reading:
    def __init__(self, name: str, document: Document) -> None:
        self._name, self._document = name, document
        for fault in document.faults:
            raise InvalidError(
                f"{name}:{fault.span.line + 1}: {fault.message}", code="P173", hint=fault.hint
            )

    def cases(self) -> Cases:
        """Read the whole document. Raises InvalidError (P173)."""
        data = self._mapping(self._document.data, (), _FILE_KEYS)
        tables = {
            name: self._schema(columns, ("tables", name))
            for name, columns in self._mapping(data.get("tables") or {}, ("tables",)).items()
        }
        found = [
            self._case(each, ("cases", number))
            for number, each in enumerate(self._list(data.get("cases"), ("cases",)))
        ]
        return Cases(tuple(found), tables)

    def _case(self, data: Any, path: KeyPath) -> Case:
        case = self._mapping(data, path, _CASE_KEYS)
        topic = case.get("topic")
        if not isinstance(topic, str):
            self._refuse((*path, "topic"), "a case sends records to one topic:  topic: orders")
        records = [
            self._sample(each, (*path, "records", number))
            for number, each in enumerate(self._list(case.get("records"), (*path, "records")))
        ]
        expect = self._mapping(case.get("expect") or {}, (*path, "expect"))
        rejected = self._mapping(case.get("rejected") or {}, (*path, "rejected"))
        return Case(
            name=str(case.get("name") or f"case {path[-1]}"),
            line=self._line(path),
            records={topic: tuple(records)},
            rows={
                table: tuple(
                    self._mapping(row, (*path, "expect", table, number))
                    for number, row in enumerate(self._list(rows, (*path, "expect", table)))
                )
                for table, rows in expect.items()
            },
            rejected={
                table: tuple(map(str, self._list(codes, (*path, "rejected", table))))
                for table, codes in rejected.items()
            },
        )

    def _sample(self, data: Any, path: KeyPath) -> Sample:
        if not isinstance(data, dict) or not any(str(key).startswith("$") for key in data):
            return Sample(_bytes_of(data))
        given = self._mapping(data, path, _RECORD_KEYS)
        value = _bytes_of(given.get("$value"))
        if "$bytes" in given:
            try:
                value = base64.b64decode(str(given["$bytes"]), validate=True)
            except binascii.Error as error:
                self._refuse((*path, "$bytes"), f"$bytes is Base64: {error}")
        headers = self._mapping(given.get("$headers") or {}, (*path, "$headers"))
        stamp = given.get("$timestamp")
        try:
            at = datetime.fromisoformat(str(stamp)) if stamp is not None else None
        except ValueError:
            self._refuse((*path, "$timestamp"), "$timestamp is as 2026-11-01T00:00:00Z")
        return Sample(
            value=value,
            key=_bytes_of(given.get("$key")),
            headers=tuple((name, _bytes_of(each)) for name, each in headers.items()),
            partition=int(given.get("$partition") or 0),
            timestamp_ms=SENT_MS if at is None else int(at.timestamp() * 1000),
        )

    def _schema(self, columns: Any, path: KeyPath) -> Schema:
        found = []
        for name, text in self._mapping(columns, path).items():
            try:
                found.append(Field(name, parse_type(str(text))))
            except ValueError as error:
                self._refuse((*path, name), str(error))
        return Struct(tuple(found))

    def _mapping(self, data: Any, path: KeyPath, known: set[str] | None = None) -> dict[str, Any]:
        if not isinstance(data, dict):
            self._refuse(path, "a mapping is expected here")
        for key in data:
            if known is not None and key not in known:
                self._refuse(
                    (*path, key), f"{key!r} is not known; known: {', '.join(sorted(known))}"
                )
        return {str(key): value for key, value in data.items()}

    def _list(self, data: Any, path: KeyPath) -> list[Any]:
        if not isinstance(data, list):
            self._refuse(path, "a list is expected here")
        return list(data)

    def _refuse(self, path: KeyPath, message: str) -> NoReturn:
        raise InvalidError(
            f"{self._name}:{self._line(path)}: {message}",
            code="P173",
            hint="how cases are written:  penstock explain P173",
        )

    def _line(self, path: KeyPath) -> int:
        for length in range(len(path), 0, -1):
            place = self._document.keys.get(path[:length]) or self._document.values.get(
                path[:length]
            )
            if place is not None:
                return place.line + 1
        return 1


def _bytes_of(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, ensure_ascii=False).encode()
