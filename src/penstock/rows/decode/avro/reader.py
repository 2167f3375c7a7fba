"""The reader of one Avro schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.core.schema import Struct
from penstock.rows.decode.avro.block_reader import read_block
from penstock.rows.decode.avro.datum_reader import read_datum
from penstock.rows.decode.format_reader import DecodedBlock
from penstock.rows.decode.schema_tree import Record


@dataclass(frozen=True, slots=True)
class AvroReader:
    """Reads datums written by one schema."""

    node: Record

    @property
    def type(self) -> Struct:
        """Return the columns that the schema asks for."""
        return self.node.type

    def block(self, values: pa.BinaryArray) -> DecodedBlock:
        """Read datums, each the whole of its value."""
        return read_block(self.node, values)

    def record(self, value: bytes) -> dict[str, Any]:
        """Read one datum. Raises RejectError."""
        return read_datum(self.node, value)
