"""Reads the entries of manifests exactly as they were written.

PyIceberg's compiled decoder reads doubles as 32 bits (0.12: 0.1 is 0.10000000149011612, 1e300 is
infinite), and only partition values are doubles in a manifest. What it has read must not be written
again, compared or told: manifests are read here, and nowhere else.

Source: Apache Avro specification, "Primitive Types" (a double is 8 bytes, IEEE 754, little-endian).
"""

from __future__ import annotations

import struct

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
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    _inherit_from_manifest,
)

_DOUBLE = struct.Struct("<d")
_LISTED = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION].fields]
_COUNTED = {
    status: (_LISTED.index(f"{name}_files_count"), _LISTED.index(f"{name}_rows_count"))
    for name, status in (
        ("added", ManifestEntryStatus.ADDED),
        ("existing", ManifestEntryStatus.EXISTING),
        ("deleted", ManifestEntryStatus.DELETED),
    )
}
"""Where a manifest list tells of the entries of each status: how many files, how many rows."""


def entries_of(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """Return the live entries of a manifest in its order. Raises OSError, ValueError."""
    return [each for each in written_in(manifest, io) if is_live(each)]


def is_live(entry: ManifestEntry) -> bool:
    """Return whether an entry's file is there, and not one that was taken away."""
    return bool(entry.status != ManifestEntryStatus.DELETED)


def written_in(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """Return all entries of a manifest in its order. Raises OSError, ValueError.

    This is `ManifestFile.fetch_manifest_entry` with doubles as they were written.
    """
    with _ExactFile(
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        return [_inherit_from_manifest(entry, manifest) for entry in reader]


def count_entries(manifest: ManifestFile, io: FileIO) -> None:
    """Fill in the counts of a manifest where its list leaves them out. Raises OSError, ValueError.

    Lists of the first format may, those of the second must not. It is done in place, for PyIceberg
    keeps what it has read of a list, by the manifests' paths: so each is counted once.
    """
    if all(manifest[at] is not None for places in _COUNTED.values() for at in places):
        return
    entries = written_in(manifest, io)
    for status, (files, rows) in _COUNTED.items():
        records = [each.data_file.record_count for each in entries if each.status == status]
        manifest[files], manifest[rows] = len(records), sum(records)


class _ExactFile(AvroFile[ManifestEntry]):
    def _read_block(self) -> int:
        records = super()._read_block()
        assert self.block is not None, "a block was read"
        self.block.block_decoder = _ExactDecoder(self.block.block_decoder)
        return records


class _ExactDecoder(BinaryDecoder):
    """Reads doubles itself, and has all else read by the decoder it is given, without a detour."""

    _HANDED_ON = (
        "read_boolean",
        "read_bytes",
        "read_float",
        "read_int",
        "read_int_bytes_dict",
        "read_ints",
        "read_utf8",
        "skip_boolean",
        "skip_bytes",
        "skip_double",
        "skip_float",
        "skip_int",
        "skip_utf8",
    )

    def __init__(self, decoder: BinaryDecoder) -> None:
        self._decoder = decoder
        for name in self._HANDED_ON:
            self.__dict__[name] = getattr(decoder, name)

    def tell(self) -> int:
        return self._decoder.tell()

    def read(self, n: int) -> bytes:
        return self._decoder.read(n)

    def skip(self, n: int) -> None:
        self._decoder.skip(n)

    def read_double(self) -> float:
        return float(_DOUBLE.unpack(self._decoder.read(8))[0])
