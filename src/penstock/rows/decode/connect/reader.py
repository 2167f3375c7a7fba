"""Values of JSON with a schema of Connect: cut in two, and payloads read by their schema.

Invariants: each value is in one part, a reject, or without a row; values whose schemas are the same
text are read together.

Source: Kafka Connect, `JsonConverter` with `schemas.enable`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.core.schema import Struct
from penstock.rows.decode.connect.block_reader import BlockReader
from penstock.rows.decode.connect.payload_reader import read_payload
from penstock.rows.decode.connect.schema import node_of
from penstock.rows.decode.envelope.json_envelopes import members_of
from penstock.rows.decode.format_reader import VALUE_COLUMN, DecodedBlock
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.decode.schema_tree import Record
from penstock.rows.reject_codes import RejectCode, RejectError

_NULL = b"null"
_MEMBERS = frozenset({"schema", "payload"})


@dataclass(slots=True)
class SchemaParts:
    """Payloads by the text of their schemas, with positions; null is the schema of none."""

    parts: dict[bytes, tuple[list[int], list[bytes]]] = field(default_factory=dict)
    rejects: dict[int, RejectError] = field(default_factory=dict)
    empty: list[int] = field(default_factory=list)
    """Values whose payload is null, which say no more than a tombstone."""


def split_schemas(values: pa.BinaryArray, *, depth_max: int) -> SchemaParts:
    """Cut values into schemas and payloads."""
    cut = SchemaParts()
    for position, value in enumerate(values.to_pylist()):
        try:
            members = members_of(value, depth_max=depth_max)
        except RejectError as error:
            cut.rejects[position] = error
            continue
        if members.keys() != _MEMBERS:
            reason = "the value is not an object of 'schema' and 'payload'"
            cut.rejects[position] = RejectError(RejectCode.NO_ENVELOPE, reason)
            continue
        if members["payload"] == _NULL:
            cut.empty.append(position)
            continue
        positions, payloads = cut.parts.setdefault(members["schema"], ([], []))
        positions.append(position)
        payloads.append(members["payload"])
    return cut


@dataclass(frozen=True, slots=True)
class ConnectReader:
    """Reads payloads of one schema."""

    node: Record
    is_bare: bool
    depth_max: int

    @classmethod
    def of(cls, schema: bytes, depth_max: int) -> ConnectReader:
        """Return the reader of a schema's payloads. Raises RejectError."""
        return cls(*node_of(parse_object(schema, depth_max=depth_max)), depth_max)

    @property
    def type(self) -> Struct:
        """Return the columns that the schema asks for."""
        return self.node.type

    def block(self, values: pa.BinaryArray) -> DecodedBlock:
        """Read payloads, each the whole of its value."""
        return BlockReader(self.node, self.depth_max).read(self._shown(values))

    def record(self, value: bytes) -> dict[str, Any]:
        """Read one payload. Raises RejectError."""
        text = _wrapped(value) if self.is_bare else value
        return read_payload(self.node, parse_object(text, depth_max=self.depth_max))

    def _shown(self, values: pa.BinaryArray) -> pa.BinaryArray:
        if not self.is_bare:
            return values
        return pa.array([_wrapped(value) for value in values.to_pylist()], pa.binary())


def _wrapped(value: bytes) -> bytes:
    """Make a record of a payload that is none: it was cut as one JSON value, so it stays one."""
    return b'{"%s":%s}' % (VALUE_COLUMN.encode(), value)
