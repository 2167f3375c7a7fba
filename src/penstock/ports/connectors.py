"""Finds connectors: entry points of the group `penstock.connectors`.

An entry point's name is the connector's (`kafka`, `iceberg`, `delta`, `sqlite`, `registry`) and its
object one of the dataclasses below, with the version of these ports it was written for. Ours use
the same door. Importing the object must not import heavy libraries; calling its functions may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.ports.checks import CheckResult
from penstock.ports.exchange import ExchangeOpener
from penstock.ports.groups import GroupOffsets
from penstock.ports.increments import FileRows, Increments
from penstock.ports.leadership import Leadership
from penstock.ports.log import Log, RangeReader
from penstock.ports.producers import Packer, ProducerNeeds, Producers, Sender
from penstock.ports.registry import Registry, Subjects
from penstock.ports.reports import Reports
from penstock.ports.runtime import Clock, Observer, Secrets
from penstock.ports.store import PendingStore, StoreAsFound
from penstock.ports.table_locks import TableLocks
from penstock.ports.tables import TableFormat
from penstock.ports.transactions import Transactions
from penstock.ports.writers import WriterOpener

PORTS_VERSION = 2

Settings = Mapping[str, Any]

READ_ONLY = "penstock.read_only"
"""Setting that opens a catalog for reading: not even a missing one is created."""


@dataclass(frozen=True, slots=True)
class LogConnector:
    """Opens a source log. Settings are the spec's `kafka` block, with references unresolved."""

    ports_version: int
    open_log: Callable[[Settings, Secrets], Log]
    open_reader: Callable[[Settings, Secrets], RangeReader]
    examine: Callable[[Settings, Secrets, Clock], Sequence[CheckResult]] | None = None
    """Check the cluster for `penstock doctor`: never raises what a finding can report."""
    open_transactions: Callable[[Settings, Secrets], Transactions] | None = None
    """Open the list of the cluster's open transactions."""
    open_producers: Callable[[Settings, Secrets, str, int], Producers] | None = None
    """Open what a publication's driver needs: with an offsets topic and a timeout in ms."""
    open_packer: Callable[[Settings], Packer] | None = None
    """Open what a publication's worker encodes with; the settings have `compression`, too."""
    open_sender: Callable[[Settings, Secrets], Sender] | None = None
    """Open what a publication's worker sends with."""
    examine_writing: Callable[[Settings, Secrets, ProducerNeeds], Sequence[CheckResult]] | None = (
        None
    )
    """Check for `penstock doctor` what a publication needs, and take no id."""
    open_group: Callable[[Settings, Secrets, str], GroupOffsets] | None = None
    """Open a consumer group by its name, to write what its members would have committed."""


@dataclass(frozen=True, slots=True)
class TableConnector:
    """Opens catalogs of one format. Settings are an entry of the spec's `catalogs`, plus `name`."""

    ports_version: int
    catalog_types: frozenset[str]
    open_catalog: Callable[[Settings, Secrets, Observer], TableFormat]
    open_writer: WriterOpener
    reserved: Callable[[Mapping[str, str]], tuple[str, ...]] = lambda _: ()
    """List the names that no column of a table with some properties may have, in whatever case."""
    open_exchange: ExchangeOpener | None = None
    """Open what rows of one table are exchanged through, between the tasks of an epoch."""
    open_increments: Callable[[Settings, Secrets, Observer, str], Increments] | None = None
    """Open what a publication reads of a table, by its name behind the catalog's."""
    open_file_rows: Callable[[Secrets], FileRows] | None = None
    """Open what a publication's worker reads files of tables with."""


@dataclass(frozen=True, slots=True)
class StoreConnector:
    """Opens a pending store from its address (`sqlite:///…`)."""

    ports_version: int
    schemes: frozenset[str]
    open_store: Callable[[str, Secrets], PendingStore]
    open_leadership: Callable[[str, Secrets, str], Leadership] | None = None
    """Open the leadership of a pipeline; without it there are no stand-bys."""
    open_table_locks: Callable[[str, Secrets], TableLocks] | None = None
    """Open the locks of tables; without it shards that meet at one only wait for a while."""
    open_reports: Callable[[str, Secrets], Reports] | None = None
    """Open what runs say of themselves; without it only their own hosts know."""
    open_as_found: Callable[[str, Secrets], StoreAsFound] | None = None
    """Open the store to look at it, without the steps that bring it up to this release."""


@dataclass(frozen=True, slots=True)
class RegistryConnector:
    """Opens a schema registry. Settings are the spec's `records.registry`, unresolved."""

    ports_version: int
    schemes: frozenset[str]
    open_registry: Callable[[Settings, Secrets], Registry]
    open_subjects: Callable[[Settings, Secrets], Subjects] | None = None
    """Open what a publication's driver registers schemas with."""
