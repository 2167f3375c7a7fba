"""Writes and reads deletion vectors, as the third format has them: in Puffin files.

Invariants:
- the vectors of a commit are together in one file, or a few; each has an entry of its own that says
  where in it the vector lies and which data file it is about;
- least and greatest path are recorded as for other delete files: PyIceberg knows by these alone
  which data file a vector is about, and else reads it for each of its partition;
- a vector that is read is the one that its entry describes: size, checksum and count agree, or it
  is a ValueError;
- what is written here is named by nothing until the request lands, and never deleted.

Source: Apache Iceberg table specification, "Deletion Vectors"; Puffin specification,
"deletion-vector-v1".
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.locations import LocationProvider

from penstock.connectors.iceberg.files.manifest_entries import about, data_file_of, place_in
from penstock.files.deletion_vectors import by_file, decoded, encoded, framed, unframed
from penstock.files.positions import Positions

PATH_ID = 2147483546
_POSITION_ID = 2147483645

_RANDOM_BYTES = 8
_MAGIC = b"PFA1"
_FOOTER_SIZE = struct.Struct("<i")
_NO_FLAGS = bytes(4)
_INHERITED = -1


@dataclass(frozen=True, slots=True)
class VectorWriter:
    """Writes the deletion vectors of one commit; `prefix` begins the names of their files."""

    io: FileIO
    places: LocationProvider
    prefix: str

    def write(self, deletes: Sequence[tuple[DataFile, Positions]]) -> list[DataFile]:
        """Write all deletes of data files; return the entries for a manifest. Raises OSError."""
        of = {file.file_path: (file, positions) for file, positions in deletes}
        vectors = [(path, encoded(positions)) for path, (_, positions) in of.items()]
        return [
            entry
            for group in by_file(vectors)
            for entry in self._written([(*of[path], framed(data)) for path, data in group])
        ]

    def _written(self, blobs: Sequence[tuple[DataFile, Positions, bytes]]) -> list[DataFile]:
        name = f"{self.prefix}-{secrets.token_hex(_RANDOM_BYTES)}-deletes.puffin"
        path = self.places.new_data_location(name)
        body, starts = bytearray(_MAGIC), []
        for _, _, frame in blobs:
            starts.append(len(body))
            body += frame
        described = [
            _blob(file, at, len(frame), len(positions))
            for (file, positions, frame), at in zip(blobs, starts, strict=True)
        ]
        footer = json.dumps({"blobs": described}, separators=(",", ":")).encode()
        body += _MAGIC + footer + _FOOTER_SIZE.pack(len(footer)) + _NO_FLAGS + _MAGIC
        with self.io.new_output(path).create() as stream:
            stream.write(bytes(body))
        return [
            _entry(path, len(body), (at, len(frame)), len(positions), file)
            for (file, positions, frame), at in zip(blobs, starts, strict=True)
        ]


def _blob(file: DataFile, start: int, size: int, count: int) -> dict[str, object]:
    return {
        "type": "deletion-vector-v1",
        "fields": [_POSITION_ID],
        "snapshot-id": _INHERITED,
        "sequence-number": _INHERITED,
        "offset": start,
        "length": size,
        "properties": {"referenced-data-file": file.file_path, "cardinality": str(count)},
    }


def _entry(
    path: str, size_bytes: int, place: tuple[int, int], count: int, like: DataFile
) -> DataFile:
    bound = {PATH_ID: like.file_path.encode()}
    file = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PUFFIN,
        partition=like.partition,
        record_count=count,
        file_size_in_bytes=size_bytes,
        lower_bounds=bound,
        upper_bounds=bound,
    )
    file.spec_id = like.spec_id
    return about(file, like.file_path, place)


def is_vector(file: DataFile) -> bool:
    """Return whether deletes are a deletion vector."""
    return bool(file.file_format is FileFormat.PUFFIN)


def read_vector(file: DataFile, io: FileIO) -> Mapping[str, Positions]:
    """Return the deletes of a vector, by its data file. Raises ValueError: damaged; OSError."""
    place, path = place_in(file), data_file_of(file)
    if place is None or path is None:
        raise ValueError(f"a deletion vector in {file.file_path} is about no data file")
    start, size = place
    with io.new_input(file.file_path).open() as stream:
        stream.seek(start)
        found = decoded(unframed(stream.read(size), file.file_path))
    if len(found) != file.record_count:
        raise ValueError(f"a vector of {file.record_count} rows has {len(found)}")
    return {path: found}
