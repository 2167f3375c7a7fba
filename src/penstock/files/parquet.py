"""Encodes rows as Parquet, so that all readers find what they look for.

Invariants:
- a column with NaN has no statistics in its file, and one with -0.0 no dictionary: both are decided
  by the first rows, and rows with either that come later go into another file (docs/design/0232);
- a column has a dictionary only where its first values repeat, and in a compressed file of few rows
  where it is of bytes (docs/design/0200).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.files.dictionary_encoding import PAGE_ROWS_MIN, repeating
from penstock.files.encoding import FileOptions
from penstock.files.float_statistics import FloatCounts
from penstock.files.leaves import bytes_of, uuids_of, without


@dataclass(frozen=True, slots=True)
class ParquetEncoding:
    """Implements `encoding.Encoding`; what it says of a file is the footer."""

    schema: pa.Schema
    options: FileOptions = field(default_factory=FileOptions)

    @property
    def ending(self) -> str:
        """What the names of files end in."""
        return "parquet"

    def fitting(self, rows: pa.Table, odd: FloatCounts) -> ParquetEncoding:
        """Return itself: it holds all rows."""
        del rows, odd
        return self

    def open(self, stream: pa.NativeFile, first: pa.Table, odd: FloatCounts) -> _ParquetFile:
        """Begin a file. Raises OSError."""
        uuids = uuids_of(self.schema)
        is_small = first.num_rows < PAGE_ROWS_MIN and self.options.level is not None
        dictionaries = bytes_of(self.schema) if is_small else repeating(first)
        footers: list[pq.FileMetaData] = []
        writer = pq.ParquetWriter(
            stream,
            self.schema,
            compression=self.options.compression,
            compression_level=self.options.level,
            use_dictionary=without(dictionaries, odd.negative_zeros | uuids, self.schema),
            write_statistics=without(True, odd.with_nans | uuids, self.schema),
            metadata_collector=footers,
        )
        return _ParquetFile(writer, footers, odd)


@dataclass(frozen=True, slots=True)
class _ParquetFile:
    writer: pq.ParquetWriter
    footers: list[pq.FileMetaData]
    first: FloatCounts

    def takes(self, rows: pa.Table, odd: FloatCounts) -> bool:
        """Return whether what is odd in the rows was so in the first of the file."""
        del rows
        return odd.with_nans <= self.first.with_nans and (
            odd.negative_zeros <= self.first.negative_zeros
        )

    def write(self, rows: pa.Table) -> None:
        """Write a row group."""
        self.writer.write_table(rows, row_group_size=rows.num_rows)

    def close(self) -> pq.FileMetaData:
        """Write the footer and return it."""
        self.writer.close()
        (footer,) = self.footers
        return footer

    def let_go(self) -> None:
        """Keep the destructor from writing a footer."""
        self.writer.is_open = False
