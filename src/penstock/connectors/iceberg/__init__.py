"""Apache Iceberg tables through PyIceberg: any catalog it knows, SQL on SQLite first.

Invariants:
- a commit is built here on the examined state and sent once; the library's retrying commit,
  which stages an append again without any check, is never called (protocol.md 5);
- importing this package imports neither PyIceberg nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.iceberg.schema.reserved_names import RESERVED
from penstock.ports.connectors import PORTS_VERSION, READ_ONLY, Settings, TableConnector
from penstock.ports.writers import AS_THEY_COME, Distribution, Placing

if TYPE_CHECKING:
    from penstock.ports.exchange import Exchange
    from penstock.ports.increments import FileRows, Increments
    from penstock.ports.runtime import Observer, Secrets
    from penstock.ports.tables import TableFormat
    from penstock.ports.writers import FileWriter

CATALOG_TYPES = frozenset({"sql", "rest", "hive", "glue", "in-memory"})


def open_catalog(settings: Settings, secrets: Secrets, observer: Observer) -> TableFormat:
    """Open a catalog from one entry of the spec's `catalogs`, plus `name`.

    All keys are PyIceberg's (`type`, `uri`, `warehouse`, `s3.*`, ...) with string values, in which
    `${env:..}` and `${file:..}` are resolved here. Ours begin with `penstock.` and are optional:
    `target_file_bytes` (256 MiB), `row_group_bytes` (64 MiB), `open_writers` (64), used where a
    table has no property that says otherwise; `metadata_horizon_seconds` (3600), the age from which
    metadata files that nothing names any more are removed; `timeout_ms` (30,000), how long one
    answer of a REST catalog or a Hive metastore may take; `retain`, which is the caller's to pass
    to `commit` and is accepted here so that one mapping serves both.
    Raises InvalidError (P431 to P432) and UnavailableError (P430).
    """
    from penstock.connectors.iceberg.catalog import open_iceberg

    return open_iceberg(settings, secrets, observer)


def open_writer(
    target: str,
    *,
    prefix: str,
    observer: Observer,
    secrets: Secrets,
    places: bool = False,
    placing: Placing = AS_THEY_COME,
) -> FileWriter:
    """Open a writer on a worker from a table's `target`; opens no catalog."""
    from penstock.connectors.iceberg.write.writer import IcebergWriter

    return IcebergWriter(
        target, prefix=prefix, observer=observer, secrets=secrets, places=places, placing=placing
    )


def open_exchange(
    target: str, distribution: Distribution, *, observer: Observer, secrets: Secrets
) -> Exchange | None:
    """Open the exchange of a table's rows from its `target`; opens no catalog."""
    from penstock.connectors.iceberg.write.exchange import exchange_of

    return exchange_of(target, distribution, observer=observer, secrets=secrets)


def open_increments(
    settings: Settings, secrets: Secrets, observer: Observer, name: str
) -> Increments:
    """Open what a table's snapshots added; the settings are those of `open_catalog`."""
    from penstock.connectors.iceberg.catalog import open_iceberg

    return open_iceberg({**settings, READ_ONLY: True}, secrets, observer).increments(name)


def open_file_rows(secrets: Secrets) -> FileRows:
    """Open a reader of files on a worker; opens no catalog."""
    from penstock.connectors.iceberg.read.table_rows import IcebergFileRows

    return IcebergFileRows(secrets)


connector = TableConnector(
    ports_version=PORTS_VERSION,
    catalog_types=CATALOG_TYPES,
    open_catalog=open_catalog,
    open_writer=open_writer,
    open_exchange=open_exchange,
    reserved=lambda _: RESERVED,
    open_increments=open_increments,
    open_file_rows=open_file_rows,
)
