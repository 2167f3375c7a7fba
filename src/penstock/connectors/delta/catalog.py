"""A root directory as a catalog: tables are found by name, created with their ledgers, checked.

Invariants:
- a table and its ledgers are created in one log entry, version 0, or not at all: retries are
  off, for with them a second creator would replace the first one's table (measured);
- a directory that holds something else is never made a table, nor one inside another table: the
  VACUUM of that one would remove its files;
- a storage that ignores the condition of a PUT (`If-None-Match`) is refused: the second of two
  racing commits would silently replace the first.
"""

from __future__ import annotations

import secrets as tokens
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable as Handle
from deltalake.exceptions import DeltaError
from deltalake.schema import Schema as DeltaSchema
from deltalake.transaction import CommitProperties, Transaction
from pyarrow import fs

from penstock.connectors.delta.errors import reading, refused
from penstock.connectors.delta.locations import (
    LazyOptions,
    StorageRoot,
    parts_of,
    root_of,
)
from penstock.connectors.delta.log.commit_file import log_of, put_if_absent
from penstock.connectors.delta.log.first_entry import NO_HOOKS, first_entry
from penstock.connectors.delta.log.ledger import commit_info, mark_of_creation, transactions_of
from penstock.connectors.delta.log.table_metadata import texts_among
from penstock.connectors.delta.schema.column_mapping import is_mapped
from penstock.connectors.delta.schema.features import (
    DELETION_VECTORS,
    configuration_of,
    require_creatable,
    require_row_deletes,
)
from penstock.connectors.delta.schema.partition_values import (
    require_partitionable,
    require_plain_layout,
)
from penstock.connectors.delta.schema.reserved_names import reserved
from penstock.connectors.delta.schema.types import delta_json, mapped_json, schema_of
from penstock.connectors.delta.table import DeltaTable
from penstock.core.commits import Landed
from penstock.core.errors import (
    InvalidError,
    OutcomeUnknownError,
    PenstockError,
    UnavailableError,
)
from penstock.core.key_columns import require_key_columns
from penstock.core.schema import Struct
from penstock.core.scratch import require_scratch
from penstock.files import FileOptions, objects
from penstock.files.directories import why_not_made
from penstock.files.errors import first_line, is_panic
from penstock.files.storage import Storage
from penstock.files.storage_settings import path_in
from penstock.ports.connectors import READ_ONLY, Settings
from penstock.ports.runtime import Observer, Secrets
from penstock.ports.tables import Table, TableDefinition, TableFormat, TableState, not_created

_SIZES = ("target_file_bytes", "row_group_bytes", "open_writers")
_KEYS = {"name", "type", "root", "storage_options", "penstock.retain", READ_ONLY}


@dataclass(frozen=True, slots=True)
class DeltaCatalog:
    """The tables below one root."""

    name: str
    root: StorageRoot
    options: FileOptions
    observer: Observer = field(repr=False, compare=False)

    def load(self, name: str) -> Table | None:
        """Find a table. Raises InvalidError (P404, P437), UnavailableError (P430)."""
        if self._is_there(name):
            return self._table(name)
        return None

    def create(self, name: str, definition: TableDefinition, ledgers: Sequence[Landed]) -> Table:
        """Create a table with its ledgers as version 0, or return the existing one."""
        if self._is_there(name):
            return self._table(name)
        self._require_outside_tables(name)
        schema = _laid_out(name, definition)
        transactions: dict[str, int] = {}
        for landed in ledgers:
            transactions |= transactions_of(landed, None, 0)
        properties = CommitProperties(
            custom_metadata=commit_info(map(mark_of_creation, ledgers)),
            max_commit_retries=0,
            app_transactions=[Transaction(*each) for each in transactions.items()],
        )
        try:
            self._put_first(name, definition, schema, properties)
            storage = Storage(self.root.filesystem())
            storage.sync(log_of(self.root, name).path(0))
            storage.sync_directories()
        except DeltaError as error:
            if not self._is_there(name):
                raise _not_created(name, definition, error) from error
        except OSError as error:
            raise refused(name, first_line(error)) from error
        except BaseException as error:
            if not is_panic(error):
                raise
            raise _not_created(name, definition, error) from error
        return self._table(name)

    def _table(self, name: str) -> DeltaTable:
        return DeltaTable(name, self.root, self.observer, self.options)

    def _put_first(
        self,
        name: str,
        definition: TableDefinition,
        schema: DeltaSchema,
        properties: CommitProperties,
    ) -> None:
        """Put version 0, unless there is one.

        Raises UnavailableError (P430), InvalidError (P431), DeltaError, OSError, panics.
        """
        location, configuration = self.root.location(name), configuration_of(definition)
        if not definition.keys:
            Handle.create(
                location,
                schema,
                mode="error",
                partition_by=list(definition.partition_by),
                configuration=configuration,
                storage_options=dict(self.root.options),
                commit_properties=properties,
                post_commithook_properties=NO_HOOKS,
            )
            return
        body = first_entry(location, schema, definition.partition_by, configuration, properties)
        if self.root.is_local:
            self.root.filesystem().create_dir(path_in(location), recursive=True)
        try:
            put_if_absent(self.root, name, 0, body)
        except OutcomeUnknownError as error:
            if not self._is_there(name):
                raise self._no_answer(error) from error

    def require_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Raise InvalidError (P436) for a property that no new table can have."""
        require_creatable(name, Struct(()), properties)

    def preview(self, name: str, definition: TableDefinition) -> TableState:
        """Return what a new table would be; only a root on this machine is checked."""
        schema = schema_of(_laid_out(name, definition).to_json(), name)
        if self.root.is_local and (why := why_not_made(Path(path_in(self.root.uri)))):
            raise refused(name, why)
        return replace(
            not_created(schema),
            not_empty=texts_among(definition.partition_by, schema),
            reserved=reserved(definition.properties),
        )

    def names(self, namespace: str) -> Sequence[str]:
        """List the directories in a namespace's directory. Raises UnavailableError (P430)."""
        place = path_in(self.root.location(namespace)) if namespace else self.root.uri
        selector = fs.FileSelector(path_in(place), allow_not_found=True)
        try:
            found = self.root.filesystem().get_file_info(selector)
        except OSError as error:
            raise self._no_answer(error) from error
        above = f"{namespace}." if namespace else ""
        return sorted(
            f"{above}{info.base_name}" for info in found if info.type is fs.FileType.Directory
        )

    def discard(self, name: str) -> None:
        """Drop a scratch table. Raises BugError (P705), InvalidError (P404), UnavailableError."""
        require_scratch(name)
        with reading(name), suppress(FileNotFoundError):
            self.root.filesystem().delete_dir(path_in(self.root.location(name)))

    def check(self) -> None:
        """Write and remove a file; in an object store, prove that it takes it once."""
        storage = self.root.filesystem()
        directory = path_in(self.root.uri)
        path = f"{directory}/.penstock-check-{tokens.token_hex(8)}"
        try:
            if self.root.is_local:
                storage.create_dir(directory, recursive=True)
            with storage.open_output_stream(path) as stream:
                stream.write(b"penstock")
            storage.delete_file(path)
        except OSError as error:
            with suppress(OSError):
                storage.delete_file(path)
            place = f"the catalog {self.name} at {self.root.uri}"
            raise refused(place, first_line(error)) from error
        if not self.root.is_local:
            self._require_conditional_writes()

    def close(self) -> None:
        """Let go of nothing: a handle lives as long as its table."""

    def _require_conditional_writes(self) -> None:
        """Create one file twice. Raises InvalidError: P431 refused, P442 both were taken."""
        root, key = self.root, f".penstock-check-{tokens.token_hex(8)}"
        try:
            if dict(root.settings).get("conditional_put", "") != "disabled":
                objects.put(root.uri, root.settings, key, b"first", "create")
                try:
                    objects.put(root.uri, root.settings, key, b"second", "create")
                except FileExistsError:
                    return
                finally:
                    with suppress(OSError):
                        objects.delete(root.uri, root.settings, key)
        except OSError as error:
            raise refused(f"the catalog {self.name} at {root.uri}", first_line(error)) from error
        raise InvalidError(
            f"the storage of the catalog {self.name} takes a second file in the place of the "
            "first: racing commits would replace each other",
            code="P442",
            hint="use a storage that supports If-None-Match, without conditional_put: disabled; "
            "Iceberg needs no such storage",
        )

    def _is_there(self, name: str) -> bool:
        """Return whether a table exists; raises InvalidError (P437) when something else does."""
        path = path_in(self.root.location(name))
        try:
            if log_of(self.root, name).is_there():
                return True
            storage = self.root.filesystem()
            (info,) = storage.get_file_info([path])
            if info.type is fs.FileType.NotFound:
                return False
            what = "a file"
            if info.type is fs.FileType.Directory:
                selector = fs.FileSelector(path, allow_not_found=True)
                inside = {each.base_name for each in storage.get_file_info(selector)}
                if not inside - {"_delta_log"}:
                    return False
                what = f"a directory with {min(inside - {'_delta_log'})} in it"
        except OSError as error:
            raise self._no_answer(error) from error
        raise InvalidError(
            f"the place of the table {name} is taken: {path} is {what}, and no Delta table",
            code="P437",
            hint="move it away, or give the table another name in the spec",
        )

    def _require_outside_tables(self, name: str) -> None:
        parts = parts_of(name)
        for depth in range(1, len(parts)):
            above = ".".join(parts[:depth])
            if log_of(self.root, above).is_there():
                raise InvalidError(
                    f"the table {name} would lie inside the table {above}",
                    code="P437",
                    hint="give one of them a name in another namespace",
                )

    def _no_answer(self, error: Exception) -> UnavailableError:
        return UnavailableError(
            f"the catalog {self.name} gave no answer: {first_line(error)}",
            code="P430",
            hint=f"see that {self.root.uri} exists, then run again",
        )


def open_delta(settings: Settings, secrets: Secrets, observer: Observer) -> TableFormat:
    """Open a catalog. Raises InvalidError (P432) for settings that cannot be used."""
    name, root = str(settings.get("name", "delta")), open_root(settings, secrets)
    sizes: dict[str, Any] = {
        each: _size(name, each, settings[f"penstock.{each}"])
        for each in _SIZES
        if f"penstock.{each}" in settings
    }
    return DeltaCatalog(name, root, FileOptions(**sizes), observer)


def open_root(settings: Settings, secrets: Secrets) -> StorageRoot:
    """Find the root of a catalog. Raises InvalidError (P432, P441)."""
    name = str(settings.get("name", "delta"))
    unknown = sorted({*settings} - _KEYS - {f"penstock.{each}" for each in _SIZES})
    if unknown:
        raise _unusable(name, f"{unknown[0][:80]!r} is no setting of a Delta catalog")
    options = settings.get("storage_options") or {}
    if not isinstance(options, Mapping):
        raise _unusable(name, "storage_options is no mapping")
    written = {str(key): str(value) for key, value in options.items()}
    resolved = LazyOptions(written, secrets)
    dict(resolved)  # raises now what it would raise later
    root = secrets.resolve(str(settings.get("root", "")))
    return root_of(name, root, resolved, written)


def _laid_out(name: str, definition: TableDefinition) -> DeltaSchema:
    """Lay a new table out. Raises InvalidError (P404, P434 to P436)."""
    parts_of(name)
    require_plain_layout(definition, name)
    configuration = configuration_of(definition)
    require_creatable(name, definition.schema, configuration)
    require_key_columns(name, definition.schema, definition.keys)
    if definition.keys:
        require_row_deletes(name, configuration, (DELETION_VECTORS,), definition.row_deletes)
    require_partitionable(definition.schema, definition.partition_by, name)
    mapped = is_mapped(definition.properties)
    written = mapped_json(definition.schema) if mapped else delta_json(definition.schema)
    return DeltaSchema.from_json(written)


def _size(catalog: str, key: str, value: Any) -> int:
    text = str(value)
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    raise _unusable(catalog, f"penstock.{key} is {text[:80]!r}, which is no number above 0")


def _unusable(catalog: str, why: str) -> InvalidError:
    return InvalidError(
        f"the catalog {catalog} cannot be opened: {why}",
        code="P432",
        hint="correct the catalog's settings in the spec; a Delta catalog needs  root: <directory>",
    )


def _not_created(name: str, definition: TableDefinition, error: BaseException) -> PenstockError:
    text = first_line(error)
    if "property" in text.lower() or is_panic(error):
        keys = ", ".join(sorted(definition.properties)) or "none"
        return InvalidError(
            f"the table {name} cannot be created with its properties ({keys}): {text}",
            code="P436",
            hint="remove  properties  that deltalake does not support",
        )
    return refused(f"the directory of the table {name}", text)
