"""One Iceberg catalog of the spec: finds, creates and checks tables.

Invariants:
- a table is created with its ledgers in one act, or not at all;
- the first creation wins: a second one returns the first one's table;
- secrets are resolved here, handed to PyIceberg and never kept, shown or sent to workers.
"""

from __future__ import annotations

import re
import secrets as randomness
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import sqlalchemy
from pyiceberg import exceptions as library
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import IcebergTables as TablesOfCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import PY_IO_IMPL, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.sorting import SortOrder

from penstock.connectors.iceberg.catalogs.opening import (
    make_room,
    opened,
    read_only_settings,
    require_room,
)
from penstock.connectors.iceberg.catalogs.rest import require_comparing
from penstock.connectors.iceberg.context import Access, Context
from penstock.connectors.iceberg.errors import CATALOG_ERRORS, on_reading, reading
from penstock.connectors.iceberg.increments import IcebergIncrements
from penstock.connectors.iceberg.io.arrow_file_io import storage_of
from penstock.connectors.iceberg.io.credentials import credentials_of
from penstock.connectors.iceberg.io.s3_file_io import IMPLEMENTATION
from penstock.connectors.iceberg.ledger.properties import CREATED, ledger_key
from penstock.connectors.iceberg.row_deletes.kept_rows import require_row_deletes
from penstock.connectors.iceberg.schema.features import require_properties
from penstock.connectors.iceberg.schema.layout import (
    identifier_ids,
    partition_spec,
    sort_order,
    with_required,
)
from penstock.connectors.iceberg.schema.partition_values import least_values
from penstock.connectors.iceberg.schema.types import to_core, to_iceberg
from penstock.connectors.iceberg.table import IcebergTable
from penstock.core.commits import Landed
from penstock.core.errors import ConflictError, InvalidError, OutcomeUnknownError
from penstock.core.key_columns import require_key_columns
from penstock.core.scratch import is_scratch, require_scratch
from penstock.core.serialization import ledger_to_json
from penstock.core.table_errors import bad_name
from penstock.files import FileOptions
from penstock.files.reopening import Reopening
from penstock.ports.connectors import READ_ONLY, Settings
from penstock.ports.runtime import Observer, Secrets
from penstock.ports.tables import Table, TableDefinition, TableState, not_created

NAME_LENGTH_MAX = 128
BRANCH_SIGN = "@"
"""Separates a table's name from its branch: `bronze.orders@audited`."""

_NAME_PARTS_MIN = 2
_NAME_WHOLE_MAX = 1000
_OWN = "penstock."
_PROVIDERS = "penstock.location_providers"
"""Paths of classes that may place the files of tables, with a space between them."""
_SIZES = ("target_file_bytes", "row_group_bytes", "open_writers")
_OWN_DEFAULTS = {
    "target_file_bytes": 256 << 20,
    "row_group_bytes": 64 << 20,
    "open_writers": 64,
    "metadata_horizon_seconds": 3600,
    "lease_seconds": 300,
    "retain": 25,
    "timeout_ms": 30_000,
}
_NAME = re.compile(rf"[a-z_][a-z0-9_]{{0,{NAME_LENGTH_MAX - 1}}}")
_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
_FORMAT = "format-version"
_DEFAULTS = {
    _FORMAT: "2",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


def open_iceberg(settings: Settings, secrets: Secrets, observer: Observer) -> IcebergTables:
    """Open a catalog; see `open_catalog` for the settings."""
    name = str(settings.get("name", ""))
    own, given = _split(name, settings, secrets)
    if not settings.get(READ_ONLY):
        make_room(given.get("uri", ""))
    kept = Reopening(settings, secrets, partial(_opened, settings, secrets), _close)
    kept()
    context = Context(
        kept=kept,
        observer=observer,
        options=FileOptions.of_sizes([own[each] for each in _SIZES]),
        metadata_horizon_seconds=own["metadata_horizon_seconds"],
        lease_seconds=own["lease_seconds"],
        location_providers=frozenset(str(settings.get(_PROVIDERS, "")).split()),
    )
    return IcebergTables(name, context, given.get("warehouse", ""), given.get("uri", ""))


def _opened(settings: Settings, secrets: Secrets) -> Access:
    name = str(settings.get("name", ""))
    own, given = _split(name, settings, secrets)
    known = read_only_settings(name, given) if settings.get(READ_ONLY) else given
    try:
        catalog = opened(name, known, own["timeout_ms"] / 1000)
    except library.NotInstalledError as error:
        raise _unusable(name, str(error)[:200]) from error
    except (ValueError, library.NoSuchPropertyException, sqlalchemy.exc.ArgumentError) as error:
        raise _unusable(name, f"PyIceberg takes them not ({type(error).__name__})") from error
    except CATALOG_ERRORS as error:
        raise on_reading(f"catalog {name}", error) from error
    require_comparing(name, catalog.properties)
    written = {key: str(value) for key, value in settings.items() if value is not None}
    return Access(catalog, credentials_of(name, written, given))


def _close(access: Access) -> None:
    access.catalog.close()
    if isinstance(access.catalog, SqlCatalog):
        access.catalog.engine.dispose()


class IcebergTables:
    """Implements `ports.tables.TableFormat`."""

    def __init__(self, name: str, context: Context, warehouse: str, uri: str) -> None:
        self._name = name
        self._uri = uri
        self._context = context
        self._warehouse = warehouse
        self._made: dict[str, list[tuple[str, ...]]] = {}

    def load(self, name: str) -> Table | None:
        """Find a table. Raises UnavailableError (P430), InvalidError (P404, P437, P438)."""
        identifier, branch = _identified(name)
        with reading(name):
            try:
                self._context.catalog.load_table(identifier)
            except library.NoSuchIcebergTableError as error:
                raise _something_else(name) from error
            except (library.NoSuchTableError, library.NoSuchNamespaceError):
                return None
        return IcebergTable(name, identifier, branch, self._context)

    def create(self, name: str, definition: TableDefinition, ledgers: Sequence[Landed]) -> Table:
        """Create a table with its ledgers, or return the existing one."""
        identifier, branch = _identified(name)
        schema, spec, order = _laid_out(name, definition, self._context.location_providers)
        properties = {
            **_DEFAULTS,
            **definition.properties,
            CREATED: "true",
            **{ledger_key(each.chain, branch): ledger_to_json(each) for each in ledgers},
        }
        self._create_namespace(identifier[:-1], name)
        with reading(name):
            try:
                created = self._context.catalog.create_table(
                    identifier, schema, partition_spec=spec, sort_order=order, properties=properties
                )
            except library.TableAlreadyExistsError as error:
                found = self.load(name)
                if found is None:
                    raise _something_else(name) from error
                return found
        table = IcebergTable(name, identifier, branch, self._context)
        with suppress(ConflictError, OutcomeUnknownError):  # then the first commit sees to it
            table.begin_at(created)
        return table

    def increments(self, name: str) -> IcebergIncrements:
        """Return what the snapshots of a table added. Raises InvalidError (P404)."""
        return IcebergIncrements(name, *_identified(name), self._context)

    def require_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Raise InvalidError (P436) for a property that no new table can have."""
        require_properties(properties, name, self._context.location_providers)

    def preview(self, name: str, definition: TableDefinition) -> TableState:
        """Return what a new table would be. Raises InvalidError (P404, P431, P434 to P436)."""
        require_room(self._uri)
        schema, spec, _ = _laid_out(name, definition, self._context.location_providers)
        return replace(
            not_created(to_core(schema, name)),
            can_widen=True,
            identifiers=tuple(sorted(schema.identifier_field_names())),
            least=least_values(spec, schema),
        )

    def names(self, namespace: str) -> Sequence[str]:
        """List the tables in a namespace. Raises UnavailableError (P430)."""
        with reading(f"namespace {namespace}"):
            try:
                found = self._context.catalog.list_tables(tuple(namespace.split(".")))
            except library.NoSuchNamespaceError:
                return []
        return sorted(".".join(identifier) for identifier in found)

    def discard(self, name: str) -> None:
        """Drop a scratch table, and the namespaces made for it that hold nothing else."""
        require_scratch(name)
        catalog = self._context.catalog
        with reading(name):
            _drop_with_files(catalog, _identified(name)[0])
        for namespace in reversed(self._made.pop(name, [])):
            # One that stays harms nobody.
            with suppress(library.NamespaceNotEmptyError, *CATALOG_ERRORS):
                if not catalog.list_namespaces(namespace):
                    catalog.drop_namespace(namespace)

    def check(self) -> None:
        """Prove that catalog and warehouse answer and may be written.

        A catalog that is not a local database is only read, since it has no harmless write,
        and one with a server of its own (REST) vends credentials for tables alone.
        Raises InvalidError (P431), UnavailableError (P430, P480, P481).
        """
        catalog = self._context.catalog
        with reading(f"catalog {self._name}"):
            catalog.list_namespaces()
            if isinstance(catalog, SqlCatalog):
                nothing = sqlalchemy.update(TablesOfCatalog).where(sqlalchemy.false())
                with catalog.engine.begin() as connection:
                    connection.execute(nothing.values(metadata_location=None))
            if self._warehouse and isinstance(catalog, MetastoreCatalog):
                _probe(self._warehouse, catalog)

    def close(self) -> None:
        """Let go of connections."""
        self._context.kept.close()

    def _create_namespace(self, namespace: tuple[str, ...], table: str) -> None:
        catalog = self._context.catalog
        with reading(table):
            for depth in range(1, len(namespace) + 1):
                if is_scratch(table) and not catalog.namespace_exists(namespace[:depth]):
                    self._made.setdefault(table, []).append(namespace[:depth])
                try:
                    catalog.create_namespace_if_not_exists(namespace[:depth])
                except sqlalchemy.exc.IntegrityError:
                    continue  # another process created it after the library's check


def _split(
    name: str, settings: Settings, secrets: Secrets
) -> tuple[dict[str, int], dict[str, str]]:
    own, given = dict(_OWN_DEFAULTS), {PY_IO_IMPL: IMPLEMENTATION}
    for key, value in settings.items():
        if key in ("name", READ_ONLY, _PROVIDERS) or value is None:
            continue
        text = secrets.resolve(str(value))
        if not key.startswith(_OWN):
            given[key] = text
            continue
        bare = key.removeprefix(_OWN)
        if bare not in own or not text.isdecimal():
            known = ", ".join(_OWN + each for each in sorted(own))
            raise _unusable(name, f"{key} is none of {known} with a whole number")
        own[bare] = int(text)
    return own, given


def _drop_with_files(catalog: Catalog, identifier: tuple[str, ...]) -> None:
    """Drop a table, and then remove its own directory."""
    try:
        table = catalog.load_table(identifier)
    except library.NoSuchTableError:
        return
    catalog.drop_table(identifier)
    if isinstance(table.io, PyArrowFileIO):
        filesystem, directory = storage_of(table.io, table.location())
        with suppress(FileNotFoundError):
            filesystem.delete_dir(directory)


def _probe(warehouse: str, catalog: Catalog) -> None:
    place = f"{warehouse.rstrip('/')}/.penstock-check-{randomness.token_hex(8)}"
    io = load_file_io({**catalog.properties}, place)
    try:
        with io.new_output(place).create() as stream:
            stream.write(b"penstock")
    except OSError:
        with suppress(OSError):
            io.delete(place)
        raise
    io.delete(place)


def _laid_out(
    name: str, definition: TableDefinition, providers: Collection[str]
) -> tuple[IcebergSchema, PartitionSpec, SortOrder]:
    if not all(_NAME.fullmatch(part) for part in _identified(name)[0]):
        raise bad_name(name)
    require_properties(definition.properties, name, providers)
    require_key_columns(name, definition.schema, definition.keys)
    version = int(definition.properties.get(_FORMAT, _DEFAULTS[_FORMAT]))
    if definition.keys:
        require_row_deletes(version, name)
    schema = to_iceberg(with_required(definition.schema, definition.identifier_fields), version)
    identifiers = identifier_ids(schema, definition.identifier_fields)
    schema = IcebergSchema(*schema.fields, identifier_field_ids=identifiers)
    spec = partition_spec(definition.partition_by, schema)
    return schema, spec, sort_order(definition.sort_by, schema)


def _identified(name: str) -> tuple[tuple[str, ...], str]:
    """Split a name into namespaces, table and branch. Raises InvalidError (P404)."""
    whole, at, branch = name.partition(BRANCH_SIGN)
    parts = tuple(whole.split("."))
    sound = len(parts) >= _NAME_PARTS_MIN and all(parts) and len(name) <= _NAME_WHOLE_MAX
    if not sound or (at and not _BRANCH.fullmatch(branch)):
        raise bad_name(name)
    return parts, branch or MAIN_BRANCH


def _something_else(name: str) -> InvalidError:
    return InvalidError(
        f"{name} is in the catalog, and it is not an Iceberg table",
        code="P437",
        hint="give the table another name in the spec, or remove what is there",
    )


def _unusable(name: str, why: str) -> InvalidError:
    return InvalidError(
        f"the catalog {name} cannot be opened with these settings: {why}",
        code="P432",
        hint="see the keys PyIceberg takes for the catalog's type, and its extras to install",
    )
