"""Reads the entries of manifests exactly as they were written.

PyIceberg's compiled decoder reads doubles as 32 bits (0.12: 0.1 is 0.10000000149011612, 1e300 is
infinite), and only partition values are doubles in a manifest. What it has read must not be written
again, compared or reported: manifests are read here, and nowhere else. It also drops the
`referenced_data_file` of delete files, which is read here.

Sources: Apache Avro specification, "Primitive Types" (a double is 8 bytes, IEEE 754,
little-endian); Apache Iceberg table specification, "Data File Fields" (143).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    _inherit_from_manifest,
)
from pyiceberg.schema import Schema
from pyiceberg.typedef import TableVersion
from pyiceberg.types import NestedField, StringType, StructType

_DOUBLE = struct.Struct("<d")
_HANDED_ON = {n for n in dir(BinaryDecoder) if n.startswith(("read_", "skip_"))} - {"read_double"}
_LISTED = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION].fields]
COUNTED = {
    (status, what): _LISTED.index(f"{status.name.lower()}_{what}_count")
    for status in (
        ManifestEntryStatus.ADDED,
        ManifestEntryStatus.EXISTING,
        ManifestEntryStatus.DELETED,
    )
    for what in ("files", "rows")
}
"""The fields of a manifest list that count the files and the rows of entries by status."""
_REFERENCED = NestedField(143, "referenced_data_file", StringType(), required=False)
_REFERENCED_AT = 16


def _with_referenced(schema: Schema) -> Schema:
    *before, file = schema.fields
    assert isinstance(file.field_type, StructType), "the last field is the file"
    kind = StructType(*file.field_type.fields, _REFERENCED)
    return Schema(*before, file.model_copy(update={"field_type": kind}))


_DATA = MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION]
_SCHEMAS = {ManifestContent.DATA: _DATA, ManifestContent.DELETES: _with_referenced(_DATA)}


def entries_of(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """Return the live entries of a manifest in its order. Raises OSError, ValueError."""
    return [each for each in written_in(manifest, io) if is_live(each)]


def is_live(entry: ManifestEntry) -> bool:
    """Return whether an entry's file is live, not removed."""
    return bool(entry.status != ManifestEntryStatus.DELETED)


def written_in(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """Return all entries of a manifest in its order. Raises OSError, ValueError.

    This is `ManifestFile.fetch_manifest_entry` with doubles as they were written, and with the data
    file that a delete file is about.
    """
    with _ExactFile(
        io.new_input(manifest.manifest_path),
        _SCHEMAS[manifest.content],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        return [_inherit_from_manifest(entry, manifest) for entry in reader]


def content_of(file: DataFile) -> ManifestContent:
    """Return which manifests a file is listed in."""
    is_data = file.content == DataFileContent.DATA
    return ManifestContent.DATA if is_data else ManifestContent.DELETES


def about(file: DataFile, path: str | None) -> DataFile:
    """Return a delete file with the data file that all its deletes are about, None if several."""
    found = DataFile(*(file[at] for at in range(_REFERENCED_AT)), path)
    found.spec_id = file.spec_id
    return found


def data_file_of(file: DataFile) -> str | None:
    """Return the data file that a delete file says its deletes are about."""
    path: str | None = file[_REFERENCED_AT] if len(file) > _REFERENCED_AT else None
    return path


class DeleteManifestWriter(ManifestWriterV2):
    """Writes a manifest of delete files; PyIceberg has a writer for those of data files alone."""

    def content(self) -> ManifestContent:
        """Return the content that the manifest list gives for it."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def _with_partition(self, format_version: TableVersion) -> Schema:
        return _with_referenced(super()._with_partition(format_version))


def count_entries(manifest: ManifestFile, io: FileIO) -> None:
    """Fill in the counts of a manifest where its list leaves them out. Raises OSError, ValueError.

    Lists of the first format may, those of the second must not. It is done in place, for PyIceberg
    keeps what it has read of a list, by the manifests' paths: so each is counted once.
    """
    if all(manifest[at] is not None for at in COUNTED.values()):
        return
    for key, count in counts_of(written_in(manifest, io)).items():
        manifest[COUNTED[key]] = count


def counts_of(entries: Sequence[ManifestEntry]) -> dict[tuple[ManifestEntryStatus, str], int]:
    """Count files and rows of entries by status, as keys of `COUNTED`."""
    counts = dict.fromkeys(COUNTED, 0)
    for each in entries:
        counts[each.status, "files"] += 1
        counts[each.status, "rows"] += each.data_file.record_count
    return counts


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
