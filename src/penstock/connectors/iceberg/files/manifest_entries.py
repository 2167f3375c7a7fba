"""Reads the entries of manifests exactly as they were written, and writes them.

PyIceberg's compiled decoder reads doubles as 32 bits (0.12: 0.1 is 0.10000000149011612, 1e300 is
infinite), and only partition values are doubles in a manifest. What it has read must not be written
again, compared or reported: manifests are read here, and nowhere else. It also drops what the third
format says of a file, and the `referenced_data_file` of delete files of the second, and it writes
neither.

Invariants:
- a data file that was given row ids keeps them wherever its entry is written again
  (docs/design/0247);
- what manifests of the second format hold is written into them, and nothing more.

Sources: Apache Avro specification, "Primitive Types" (a double is 8 bytes, IEEE 754,
little-endian); Apache Iceberg table specification, "Data File Fields" (142 to 145), "First Row ID
Inheritance".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    _inherit_from_manifest,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.schema import Schema
from pyiceberg.typedef import TableVersion
from pyiceberg.types import StructType

from penstock.connectors.iceberg.files.avro_files import LaidOutFile, Layout
from penstock.connectors.iceberg.files.manifest_lists import first_row_id_of
from penstock.connectors.iceberg.schema.row_ids import Inherited

_DOUBLE = struct.Struct("<d")
_HANDED_ON = {n for n in dir(BinaryDecoder) if n.startswith(("read_", "skip_"))} - {"read_double"}
_NEWEST: TableVersion = 3
_ENTRY = MANIFEST_ENTRY_SCHEMAS[_NEWEST]
_FILE_SIZE_AT = 5
_FIRST_ROW_ID_AT, _REFERENCED_AT, _OFFSET_AT, _SIZE_AT = range(16, 20)


def entries_of(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """Return the live entries of a manifest in its order. Raises OSError, ValueError."""
    return [each for each in written_in(manifest, io) if is_live(each)]


def is_live(entry: ManifestEntry) -> bool:
    """Return whether an entry's file is live, not removed."""
    return bool(entry.status != ManifestEntryStatus.DELETED)


def written_in(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """Return all entries of a manifest in its order. Raises OSError, ValueError.

    This is `ManifestFile.fetch_manifest_entry` with doubles as they were written, and with all that
    the third format says of a file.
    """
    with _ExactFile(
        io.new_input(manifest.manifest_path),
        _ENTRY,
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        entries = [_inherit_from_manifest(entry, manifest) for entry in reader]
    _give_row_ids(entries, first_row_id_of(manifest))
    return entries


def _give_row_ids(entries: Sequence[ManifestEntry], first: int | None) -> None:
    """Fill in the first row id of the files that inherit it from their manifest, in its order."""
    for entry in entries:
        file = entry.data_file
        if first is None:
            file[_FIRST_ROW_ID_AT] = None
        elif file[_FIRST_ROW_ID_AT] is None and is_live(entry):
            file[_FIRST_ROW_ID_AT] = first
            first += file.record_count


def inherited_by(entry: ManifestEntry) -> Inherited:
    """Return what the rows of a data file have that the file does not hold."""
    file = entry.data_file
    first = file[_FIRST_ROW_ID_AT] if len(file) > _FIRST_ROW_ID_AT else None
    return Inherited(first, entry.sequence_number)


def content_of(file: DataFile) -> ManifestContent:
    """Return which manifests a file is listed in."""
    is_data = file.content == DataFileContent.DATA
    return ManifestContent.DATA if is_data else ManifestContent.DELETES


def about(
    file: DataFile, path: str | None, place: tuple[int | None, int | None] = (None, None)
) -> DataFile:
    """Return a delete file with the data file that all its deletes are about, None if several.

    `place` is where in it a deletion vector begins, and how many bytes that takes.
    """
    found = DataFile(*(file[at] for at in range(_FIRST_ROW_ID_AT)), None, path, *place)
    found.spec_id = file.spec_id
    return found


def data_file_of(file: DataFile) -> str | None:
    """Return the data file that a delete file says its deletes are about."""
    path: str | None = file[_REFERENCED_AT] if len(file) > _REFERENCED_AT else None
    return path


def place_in(file: DataFile) -> tuple[int, int] | None:
    """Return where in its file a deletion vector begins, and how many bytes it takes.

    None for whatever is a file of its own. Raises ValueError: it lacks one of the two.
    """
    if file.file_format is not FileFormat.PUFFIN:
        return None
    if len(file) <= _SIZE_AT or file[_OFFSET_AT] is None or file[_SIZE_AT] is None:
        raise ValueError(f"a deletion vector in {file.file_path} has no place there")
    return file[_OFFSET_AT], file[_SIZE_AT]


def name_of(file: DataFile) -> str:
    """Return what no other entry has: the path, and the place of one of several vectors there."""
    place = place_in(file)
    return file.file_path if place is None else f"{file.file_path}@{place[0]}"


def size_of(file: DataFile) -> int:
    """Return how many bytes an entry is about: of a file with several vectors, those of its own."""
    place = place_in(file)
    size: int = file.file_size_in_bytes if place is None else place[1]
    return size


def counted(file: DataFile) -> DataFile:
    """Return a file as a summary counts it: with the size of what its entry is about."""
    columns = [file[at] for at in range(len(file))]
    columns[_FILE_SIZE_AT] = size_of(file)
    found = DataFile(*columns)
    found.spec_id = file.spec_id
    return found


class EntryWriter(ManifestWriterV2):
    """Writes a manifest of the second or third format, of data files or of delete files.

    PyIceberg writes none of delete files, and none of the third format.
    """

    def __init__(self, version: TableVersion, content: ManifestContent, **given: Any) -> None:
        super().__init__(**given)
        self._version = version
        self._content = content

    @property
    def version(self) -> TableVersion:
        """Return the format version."""
        return self._version

    def content(self) -> ManifestContent:
        """Return the content that the manifest list gives for it."""
        return self._content

    @property
    def _meta(self) -> dict[str, str]:
        content = "data" if self._content is ManifestContent.DATA else "deletes"
        return {**super()._meta, "content": content}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """Open the file with the columns of its format."""
        partition = self._spec.partition_type(self._schema)
        return LaidOutFile(
            self._output_file, _layout(self._version, self._content, partition), self._meta
        )


@lru_cache(maxsize=64)
def _layout(version: TableVersion, content: ManifestContent, partition: StructType) -> Layout:
    file = data_file_with_partition(partition, _NEWEST)
    held = manifest_entry_schema_with_data_file(_NEWEST, file)
    written = held if version == _NEWEST else _before(held, content)
    return Layout.of("manifest_entry", written, held)


def _before(schema: Schema, content: ManifestContent) -> Schema:
    """Return the columns of the second format; delete files may name their data file in it."""
    *before, file = schema.fields
    assert isinstance(file.field_type, StructType), "the last field is the file"
    columns = file.field_type.fields
    kept = [*columns[:_FIRST_ROW_ID_AT]]
    if content is ManifestContent.DELETES:
        kept.append(columns[_REFERENCED_AT])
    return Schema(*before, file.model_copy(update={"field_type": StructType(*kept)}))


class _ExactFile(AvroFile[ManifestEntry]):
    def _read_block(self) -> int:
        records = super()._read_block()
        assert self.block is not None, "a block was read"
        self.block.block_decoder = _ExactDecoder(self.block.block_decoder)
        return records


class _ExactDecoder(BinaryDecoder):
    """Reads doubles itself, and has all else read by the decoder it is given, without a detour."""

    def __init__(self, decoder: BinaryDecoder) -> None:
        self._decoder = decoder
        for name in _HANDED_ON:
            self.__dict__[name] = getattr(decoder, name)

    def tell(self) -> int:
        return self._decoder.tell()

    def read(self, n: int) -> bytes:
        return self._decoder.read(n)

    def skip(self, n: int) -> None:
        self._decoder.skip(n)

    def read_double(self) -> float:
        return float(_DOUBLE.unpack(self._decoder.read(8))[0])
