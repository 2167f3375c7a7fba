"""Avro files whose columns are laid out once, for as many files as there are.

PyIceberg makes the encoder and the schema's text anew for each file: most of the work for a
manifest with one entry, and a commit into a table of a route has hardly more (docs/design/0255).

Invariant: a file is byte for byte what PyIceberg writes.

Source: Apache Avro specification, "Object Container Files".
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyiceberg.avro.codecs import AVRO_CODEC_KEY, CODEC_MAPPING_ICEBERG_TO_AVRO
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader, AvroOutputFile
from pyiceberg.avro.resolver import construct_writer, resolve_writer
from pyiceberg.avro.writer import Writer
from pyiceberg.io import OutputFile
from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

_SCHEMA_KEY = "avro.schema"


@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a file decide: how a row is encoded, and the schema as a text."""

    encoder: Writer
    text: str

    @classmethod
    def of(cls, name: str, written: Schema, rows: Schema) -> Layout:
        """Lay out files with some columns, from rows with others."""
        text = json.dumps(AvroSchemaConversion().iceberg_to_avro(written, schema_name=name))
        return cls(resolve_writer(record_schema=rows, file_schema=written), text)


class LaidOutFile(AvroOutputFile[Any]):
    """Writes one file; `metadata` names its codec."""

    def __init__(self, output_file: OutputFile, layout: Layout, metadata: dict[str, str]) -> None:
        self.output_file = output_file
        self.sync_bytes = os.urandom(SYNC_SIZE)
        self.writer = layout.encoder
        self.metadata = metadata
        self._text = layout.text

    def _write_header(self) -> None:
        codec = self.metadata[AVRO_CODEC_KEY]
        codec = CODEC_MAPPING_ICEBERG_TO_AVRO.get(codec) or codec
        meta = {**self.metadata, _SCHEMA_KEY: self._text, AVRO_CODEC_KEY: codec}
        _header_encoder().write(self.encoder, AvroFileHeader(MAGIC, meta, self.sync_bytes))


@cache
def _header_encoder() -> Writer:
    return construct_writer(META_SCHEMA)
