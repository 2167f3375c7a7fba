"""What the coordinator is told: settings are data, the world is ports. Built by the app."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.core.schema import Schema, Type
from penstock.ports.log import Log
from penstock.ports.running import Clock, Engine, Observer
from penstock.ports.store import Owner, PendingStore
from penstock.ports.tables import TableFormat
from penstock.rows.options import RowOptions

Start = Literal["earliest", "latest"] | int | Mapping[str, Mapping[int, int]]
Until = Literal["stopped", "once", "caught-up"]
Consent = Literal["gap", "topic", "rules"]


@dataclass(frozen=True, slots=True)
class Place:
    """Name a table: in the spec (`lake.bronze.orders`), its catalog, and in that catalog."""

    table: str
    catalog: str
    name: str
    connector: str


@dataclass(frozen=True, slots=True)
class Target:
    """Describe one table that a topic is landed in."""

    place: Place
    options: RowOptions
    create: bool
    hints: Mapping[str, Type] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything about a pipeline that the loop needs; `log` goes into jobs and holds no secret.

    `routes` gives the targets of topics by their names; it is pure, and raises InvalidError when
    two of them cannot live together. `start` is a word, an
    epoch millisecond, or offsets by topic and partition.
    """

    pipeline: str
    rules_hash: str
    rules_text: str
    routes: Callable[[Collection[str]], Mapping[str, tuple[Target, ...]]]
    quarantine: Place
    quarantine_schema: Schema
    start: Start
    log: Mapping[str, Any]
    every_seconds: float = 30.0
    records_max: int = 10_000_000
    bytes_max: int = 256 << 20
    slice_bytes: int = 64 << 20
    timeout_seconds: float = 120.0
    anchor_every_seconds: float = 3600.0
    max_epochs: int = 4
    retain: int = 25
    columns_max: int = 2000
    stop_above_share: float = 1.0
    commit_threads: int = 8
    heartbeat_seconds: float = 3.0
    alive_seconds: float = 15.0
    accept: frozenset[Consent] = frozenset()
    faults: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """The outside, as ports. `cluster_id` is the log's, asked once: a cluster that takes its place
    has topics of other ids. `jitter` gives numbers in 0..1, `token` short random texts.
    """

    log: Log
    cluster_id: str
    catalogs: Mapping[str, TableFormat]
    store: PendingStore
    engine: Engine
    observer: Observer
    clock: Clock
    owner: Owner
    jitter: Callable[[], float]
    token: Callable[[], str]
