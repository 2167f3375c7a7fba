"""The reader of one Avro schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.core.schema import Struct
from penstock.rows.decode.avro.block_reader import read_block
from penstock.rows.decode.avro.datum_reader import read_datum
from penstock.rows.decode.avro.schema import Record, type_of_node
from penstock.rows.decode.format_reader import DecodedBlock


@dataclass(frozen=True, slots=True)
class AvroReader:
    """Reads datums written by one schema."""

    node: Record

    @property
    def type(self) -> Struct:
        """Return the columns that the schema asks for."""
        asked = type_of_node(self.node)
        assert isinstance(asked, Struct), "a record without a meaning asks for a struct"
        return asked

    def block(self, values: pa.BinaryArray) -> DecodedBlock:
        """Read datums, each the whole of its value."""
        return read_block(self.node, values)

    def record(self, value: bytes) -> dict[str, Any]:
        """Read one datum. Raises MisfitError."""
        return read_datum(self.node, value)
