"""Writes and reads position delete files: a data file's path and a row's place in it, in Parquet;
others write them in ORC as well.

Invariants:
- rows are sorted by path, then by position, each once;
- least and greatest path are recorded whole, never truncated: where they are equal, readers know by
  them that all deletes are about one data file, and read them with no other;
- what is written here is named by nothing until the request lands, and never deleted.

Source: Apache Iceberg table specification, "Position Delete Files", "Reserved Field IDs".
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.conversions import to_bytes
from pyiceberg.io import FileIO, InputStream
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.locations import LocationProvider
from pyiceberg.types import LongType

from penstock.connectors.iceberg.files.manifest_entries import about, data_file_of, name_of
from penstock.connectors.iceberg.row_deletes.vectors import PATH_ID, is_vector, read_vector
from penstock.core.table_errors import unsupported
from penstock.files import FileOptions
from penstock.files.kept import Kept
from penstock.files.positions import POSITIONS_KEPT_MAX, Positions, joined

POSITION_ID = 2147483545

_RANDOM_BYTES = 8
_ROWS_PER_GROUP = 1_000_000


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={b"PARQUET:field_id": str(number)})


SCHEMA = pa.schema(
    [_field("file_path", pa.string(), PATH_ID), _field("pos", pa.int64(), POSITION_ID)]
)


@dataclass(frozen=True, slots=True)
class DeleteFileWriter:
    """Writes the delete files of one commit; `prefix` begins their names."""

    io: FileIO
    places: LocationProvider
    prefix: str
    options: FileOptions

    def write(self, deletes: Mapping[str, Positions], like: DataFile) -> DataFile:
        """Write deletes by data file, all of the partition of one; return the entry for a manifest.

        Raises OSError.
        """
        name = f"{self.prefix}-{secrets.token_hex(_RANDOM_BYTES)}-deletes.parquet"
        path = self.places.new_data_location(name)
        sink = pa.BufferOutputStream()
        pq.write_table(
            _rows_of(deletes),
            sink,
            compression=self.options.compression,
            compression_level=self.options.level,
            use_dictionary=["file_path"],
            row_group_size=_ROWS_PER_GROUP,
            store_schema=False,
        )
        content = sink.getvalue()
        with self.io.new_output(path).create() as stream:
            stream.write(content.to_pybytes())
        footer = pq.read_metadata(pa.BufferReader(content))
        return _described(path, content.size, footer, deletes, like)


def _rows_of(deletes: Mapping[str, Positions]) -> pa.Table:
    paths = sorted(deletes)
    counts = [len(deletes[path]) for path in paths]
    numbers = pa.array(np.repeat(np.arange(len(paths), dtype=np.int32), counts))
    column = pa.DictionaryArray.from_arrays(numbers, pa.array(paths, pa.string()))
    positions = pa.array(np.concatenate([deletes[path] for path in paths]), pa.int64())
    path, position = SCHEMA
    schema = pa.schema([path.with_type(column.type), position])
    return pa.Table.from_arrays([column, positions], schema=schema)


def _described(
    path: str,
    size_bytes: int,
    footer: pq.FileMetaData,
    deletes: Mapping[str, Positions],
    like: DataFile,
) -> DataFile:
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    ids = (PATH_ID, POSITION_ID)
    sizes = [
        sum(each.column(at).total_compressed_size for each in groups) for at in range(len(ids))
    ]
    first, last = min(deletes), max(deletes)
    least = min(int(each[0]) for each in deletes.values())
    greatest = max(int(each[-1]) for each in deletes.values())
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=like.partition,
        record_count=footer.num_rows,
        file_size_in_bytes=size_bytes,
        column_sizes=dict(zip(ids, sizes, strict=True)),
        value_counts=dict.fromkeys(ids, footer.num_rows),
        null_value_counts=dict.fromkeys(ids, 0),
        nan_value_counts=None,
        lower_bounds={PATH_ID: first.encode(), POSITION_ID: to_bytes(LongType(), least)},
        upper_bounds={PATH_ID: last.encode(), POSITION_ID: to_bytes(LongType(), greatest)},
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = like.spec_id
    return about(file, first if first == last else None)


def only_path_of(file: DataFile) -> str | None:
    """Return the one data file that a delete file is about; None where it may be about several."""
    if (path := data_file_of(file)) is not None:
        return path
    lower = (file.lower_bounds or {}).get(PATH_ID)
    upper = (file.upper_bounds or {}).get(PATH_ID)
    if lower is None or lower != upper:
        return None
    try:
        return lower.decode()
    except UnicodeDecodeError:
        return None


class DeleteFileReader:
    """Reads the delete files and deletion vectors of one table, and keeps what it has read last:
    they never change.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept = Kept[Mapping[str, Positions]](POSITIONS_KEPT_MAX)

    def deletes_in(self, file: DataFile, io: FileIO) -> Mapping[str, Positions]:
        """Return the deletes of a delete file or a vector by data file.

        Raises InvalidError (P436): the file is of Avro; OSError, ValueError.
        """
        known = self._kept.get(name_of(file))
        if known is None:
            known = self._read(file, io)
            self.keep(file, known)
        return known

    def _read(self, file: DataFile, io: FileIO) -> Mapping[str, Positions]:
        if is_vector(file):
            return read_vector(file, io)
        if file.file_format not in _READ:
            feature = (
                f"position deletes in a file of the format {FileFormat(file.file_format).value}"
            )
            raise unsupported(self._name, feature, "Parquet and ORC are read")
        with io.new_input(file.file_path).open() as stream:
            return _by_path(_READ[file.file_format](stream))

    def keep(self, file: DataFile, deletes: Mapping[str, Positions]) -> None:
        """Keep the deletes of a file or a vector that was written."""
        self._kept.keep(name_of(file), deletes, sum(map(len, deletes.values())))


def _of_parquet(stream: InputStream) -> pa.Table:
    return pq.read_table(stream, columns=SCHEMA.names, read_dictionary=["file_path"])


def _of_orc(stream: InputStream) -> pa.Table:
    rows = orc.ORCFile(stream).read(columns=SCHEMA.names)
    paths = rows["file_path"].combine_chunks().dictionary_encode()
    return pa.table({"file_path": paths, "pos": rows["pos"]})


_READ = {FileFormat.PARQUET: _of_parquet, FileFormat.ORC: _of_orc}


def _by_path(rows: pa.Table) -> dict[str, Positions]:
    whole = rows.unify_dictionaries().combine_chunks()
    if not whole.num_rows:
        return {}
    [paths], [positions] = whole["file_path"].chunks, whole["pos"].cast(pa.int64()).chunks
    numbers = paths.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(numbers, kind="stable")
    stops = np.cumsum(np.bincount(numbers, minlength=len(paths.dictionary)))
    parts = np.split(positions.to_numpy()[order], stops[:-1])
    return {
        path: joined([part])
        for path, part in zip(paths.dictionary.to_pylist(), parts, strict=True)
        if len(part)
    }
