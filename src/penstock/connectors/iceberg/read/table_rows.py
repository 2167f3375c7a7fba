"""What a worker reads files of a table with, as versioned JSON, and how it reads them.

Invariants:
- no catalog is opened, and no secret of the spec is in a text: credentials are references, or what
  the catalog lent for this table (io/credentials.py);
- metadata travels without snapshots, and without properties but the mapping of names.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, PrimitiveType

from penstock.connectors.iceberg.catalogs.third_format import writable
from penstock.connectors.iceberg.errors import reading
from penstock.connectors.iceberg.files.file_metadata import data_file
from penstock.connectors.iceberg.files.manifest_entries import inherited_by
from penstock.connectors.iceberg.io.arrow_file_io import ArrowIO
from penstock.connectors.iceberg.io.credentials import Credential, opened, shared
from penstock.connectors.iceberg.read.file_rows import FileToRead, rows_in
from penstock.connectors.iceberg.schema.partition_schemas import schema_of
from penstock.connectors.iceberg.schema.row_ids import NOTHING_INHERITED, Inherited
from penstock.core.commits import DataFile as Written
from penstock.core.table_errors import no_target, require_target_version
from penstock.files.positions import NONE, Positions, packed, unpacked
from penstock.ports.increments import ReadableFiles
from penstock.ports.runtime import Secrets

WORK_VERSION = 2
_WITHOUT: Mapping[str, Any] = {
    "snapshots": [],
    "refs": {},
    "snapshot_log": [],
    "metadata_log": [],
    "statistics": [],
    "partition_statistics": [],
    "current_snapshot_id": None,
}


def readable_files(
    name: str,
    table: Table,
    own: Mapping[str, Credential],
    entries: Iterable[tuple[ManifestEntry, Positions]],
    row_ids: Sequence[str],
) -> ReadableFiles:
    """Return how live files are read, each with its deleted rows, to be written again."""
    details = [
        detail_of(table.metadata, entry.data_file, deleted, inherited_by(entry))
        for entry, deleted in entries
    ]
    return ReadableFiles(work_of(name, table, own, row_ids), tuple(details))


def work_of(
    name: str, table: Table, own: Mapping[str, Credential], row_ids: Sequence[str] = ()
) -> str:
    """Write what files of a table are opened with; columns of row ids come behind its own."""
    storage, lent = shared(table.io.properties, own)
    mapping = TableProperties.DEFAULT_NAME_MAPPING
    kept = {key: each for key, each in table.metadata.properties.items() if key == mapping}
    metadata = table.metadata.model_copy(update={**_WITHOUT, "properties": kept})
    data = {
        "v": WORK_VERSION,
        "table": name,
        "metadata": writable(metadata).model_dump_json(),
        "row_ids": [*row_ids],
        "storage": storage,
        "lent": lent,
    }
    return json.dumps(data, separators=(",", ":"))


def detail_of(
    metadata: TableMetadata,
    file: DataFile,
    deleted: Positions,
    inherited: Inherited = NOTHING_INHERITED,
) -> str:
    """Write what a data file is, and which of its rows are deleted."""
    partition = [
        None if (value := file.partition[at]) is None else _text_of(field, value)
        for at, field in enumerate(_partition_fields(metadata, file.spec_id))
    ]
    known = [file.file_path, file.file_format.value, file.record_count, file.spec_id]
    given = [inherited.first_row_id, inherited.sequence]
    return json.dumps([*known, partition, packed(deleted), given])


class IcebergFileRows:
    """Implements `ports.increments.FileRows`."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def read(self, work: str, detail: str, *, start: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield all columns of a file's live rows, those of row ids if asked for, and positions.

        Raises UnavailableError (P403, P481), InvalidError (P438).
        """
        name, metadata, row_ids, storage, lent = _read(work)
        path, kind, rows, spec_id, partition, deleted, inherited = json.loads(detail)
        fields = _partition_fields(metadata, spec_id)
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat(kind),
            partition=Record(*map(_value_of, fields, partition)),
            record_count=rows,
            file_size_in_bytes=0,
        )
        file.spec_id = spec_id
        io = _io(tuple(sorted(opened(storage, lent, self._secrets).items())))
        columns = [*(field.name for field in metadata.schema().fields), *row_ids]
        with reading(name):
            source = FileToRead(name, io, metadata, file, Inherited(*inherited))
            yield from rows_in(source, columns, deleted=unpacked(deleted), start=start)

    def written(self, work: str, file: Written) -> str:
        """Return how a file that was written for the table is read. Raises InvalidError (P439)."""
        name, metadata, *_ = _read(work)
        return detail_of(metadata, data_file(file, metadata, name), NONE)


@functools.lru_cache(maxsize=16)
def _io(settings: tuple[tuple[str, str], ...]) -> ArrowIO:
    """Open a storage once for many files: each time costs a connection."""
    return ArrowIO(dict(settings))


@functools.lru_cache(maxsize=16)
def _read(
    work: str,
) -> tuple[str, TableMetadata, Sequence[str], dict[str, str], dict[str, str]]:
    try:
        data = json.loads(work)
        require_target_version(data["v"], WORK_VERSION)
        metadata = TableMetadataUtil.parse_raw(data["metadata"])
        return data["table"], metadata, data["row_ids"], data["storage"], data["lent"]
    except (ValueError, KeyError, TypeError) as error:
        raise no_target("Iceberg", error) from error


def _partition_fields(metadata: TableMetadata, spec_id: int) -> tuple[NestedField, ...]:
    schema = schema_of(metadata, spec_id)
    if schema is None:  # by a column that no schema has any more: none asks for its values
        return ()
    return metadata.specs()[spec_id].partition_type(schema).fields


def _text_of(field: NestedField, value: Any) -> str:
    assert isinstance(field.field_type, PrimitiveType), "partition values are no structs"
    return base64.b64encode(to_bytes(field.field_type, value)).decode()


def _value_of(field: NestedField, text: str | None) -> Any:
    assert isinstance(field.field_type, PrimitiveType), "partition values are no structs"
    return None if text is None else from_bytes(field.field_type, base64.b64decode(text))
