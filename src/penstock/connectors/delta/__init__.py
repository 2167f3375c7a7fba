"""Delta Lake tables through deltalake: directories below a root, on a local disk or S3.

Invariants:
- a commit is one optimistic transaction from exactly the version that was examined, with our `txn`
  actions in it: a racing commit of ours is refused by the log (protocol.md 5);
- the library's hooks are off: checkpoints and log clean-up run out of band;
- importing this package imports neither deltalake nor pyarrow, and workers never import deltalake:
  it does not survive a fork.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.delta.schema.reserved_names import reserved
from penstock.core.table_errors import no_late_rows
from penstock.ports.connectors import PORTS_VERSION, Settings, TableConnector
from penstock.ports.writers import AS_THEY_COME, Distribution, Placing

if TYPE_CHECKING:
    from penstock.ports.exchange import Exchange
    from penstock.ports.increments import FileRows, Increments
    from penstock.ports.runtime import Observer, Secrets
    from penstock.ports.tables import TableFormat
    from penstock.ports.writers import FileWriter


def open_catalog(settings: Settings, secrets: Secrets, observer: Observer) -> TableFormat:
    """Open a root directory from one entry of the spec's `catalogs`, plus `name`.

    `root` is an absolute path or `s3://bucket/prefix`; a table `bronze.orders` is the directory
    `root/bronze/orders`. `storage_options` are deltalake's, with references resolved here; workers
    find credentials in their own environment. Optional: `penstock.target_file_bytes` (256 MiB),
    `penstock.row_group_bytes` (64 MiB), `penstock.open_writers` (64); `penstock.retain` is
    accepted and does nothing: a table's `delta.logRetentionDuration` says how long its log is kept.
    Raises InvalidError (P432).
    """
    from penstock.connectors.delta.catalog import open_delta

    return open_delta(settings, secrets, observer)


def open_writer(
    target: str,
    *,
    prefix: str,
    observer: Observer,
    secrets: Secrets,
    places: bool = False,
    placing: Placing = AS_THEY_COME,
) -> FileWriter:
    """Open a writer on a worker from a table's `target`; opens no log and no deltalake.

    A table has no sort order. Raises InvalidError (P869): its files have its one partitioning.
    """
    from penstock.connectors.delta.files.writer import DeltaWriter

    if placing.distribution is Distribution.LATE:
        raise no_late_rows("a Delta table", "all of its files have its one partitioning")
    return DeltaWriter(
        target,
        prefix=prefix,
        observer=observer,
        secrets=secrets,
        places=places,
        row_ids=placing.row_ids,
    )


def open_exchange(
    target: str, distribution: Distribution, *, observer: Observer, secrets: Secrets
) -> Exchange | None:
    """Open the exchange of a table's rows from its `target`; opens no log and no deltalake."""
    from penstock.connectors.delta.files.exchange import exchange_of

    return exchange_of(target, distribution, observer=observer, secrets=secrets)


def open_increments(
    settings: Settings, secrets: Secrets, observer: Observer, name: str
) -> Increments:
    """Open what a table's versions added; the settings are those of `open_catalog`."""
    from penstock.connectors.delta.catalog import open_root
    from penstock.connectors.delta.increments import DeltaIncrements

    del observer
    return DeltaIncrements(name, open_root(settings, secrets))


def open_file_rows(secrets: Secrets) -> FileRows:
    """Open a reader of files on a worker; opens no log and no deltalake."""
    from penstock.connectors.delta.read.table_rows import DeltaFileRows

    return DeltaFileRows(secrets)


connector = TableConnector(
    ports_version=PORTS_VERSION,
    catalog_types=frozenset({"delta"}),
    open_catalog=open_catalog,
    open_writer=open_writer,
    open_exchange=open_exchange,
    reserved=reserved,
    open_increments=open_increments,
    open_file_rows=open_file_rows,
)
