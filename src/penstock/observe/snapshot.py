"""What a pipeline looks like at one moment, and its versioned JSON form.

Invariants:
- a snapshot is made of events alone (reducer.py); it is for people and never decides anything;
- times are epoch milliseconds; ages and rates are worked out against a `now` that is handed in;
- the JSON form only grows: a reader ignores keys it does not know and refuses a newer version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from penstock.core.errors import InvalidError

SNAPSHOT_VERSION = 1

RATE_WINDOW_MS = 30_000
RECENT_COMMITS_MAX = 64
STALLED_AFTER_INTERVALS = 2
SILENT_FOR_MS = 60_000
"""After so long without a word of its silence, Kafka is taken to answer again."""


class State(StrEnum):
    """Tell what a pipeline is doing."""

    STARTING = "starting"
    RUNNING = "running"
    CATCHING_UP = "catching up"
    IDLE = "idle"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Tell whether nothing more will happen in this run."""
        return self in {State.STOPPED, State.FAILED}


@dataclass(frozen=True, slots=True)
class PendingEpoch:
    """Hold one epoch whose files for a table are written and not yet visible."""

    epoch: int
    rows: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class LastCommit:
    """Hold the newest commit of a table in this run."""

    at_ms: int
    epoch: int
    kind: str
    rows: int
    files: int
    size_bytes: int
    snapshot: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Parked:
    """Hold why a table is parked, and since when."""

    code: str
    reason: str
    since_ms: int
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """Hold one table: totals are those of this run. `recent` are (time, rows) of new commits.

    `holds` are the rows in the table, whoever wrote them, and `offsets` the next ones to land by
    `topic:partition`, where the table was asked.
    """

    rows: int = 0
    commits: int = 0
    files: int = 0
    size_bytes: int = 0
    last_commit: LastCommit | None = None
    pending: tuple[PendingEpoch, ...] = ()
    valid_through_ms: int | None = None
    lag_records: int | None = None
    parked: Parked | None = None
    quarantined: Mapping[str, int] = field(default_factory=dict)
    recent: tuple[tuple[int, int], ...] = ()
    holds: int | None = None
    offsets: Mapping[str, int] = field(default_factory=dict)

    @property
    def quarantined_total(self) -> int:
        """Count the records quarantined in this run, whatever the code."""
        return sum(self.quarantined.values())


@dataclass(frozen=True, slots=True)
class Reading:
    """Hold an epoch that is being read: `since_ms` is when its first records came in."""

    epoch: int
    records: int = 0
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """Hold since when Kafka gives no answer, and when that was told last."""

    since_ms: int
    told_ms: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Hold what is to happen before a run goes on, and since when it waits for that."""

    what: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Hold a whole pipeline. `recovering` counts commits an earlier run left to be settled; `lag`
    is empty until it is known. `updated_ms` is 0 where no run has told of itself.
    """

    pipeline: str
    state: State
    started_ms: int
    updated_ms: int
    generation: int = 0
    owner: str = ""
    epoch: int = 0
    recovering: int = 0
    reading: Reading | None = None
    lag: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, TableStatus] = field(default_factory=dict)
    reason: str = ""
    code: str = ""
    clean: bool | None = None
    silence: Silence | None = None
    waiting: Waiting | None = None

    @property
    def lag_records(self) -> int | None:
        """Count the records of all topics that were waiting when the newest epoch was planned.

        None while that is not known.
        """
        return sum(self.lag.values()) if self.lag else None

    @property
    def parked_lag_records(self) -> int | None:
        """Count the records that wait for parked tables, for each table its own.

        None where that is not known of one of them.
        """
        lags = [table.lag_records for table in self.tables.values() if table.parked]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None

    @property
    def pending(self) -> int:
        """Count the commits of all tables that are prepared and not yet visible."""
        return sum(len(table.pending) for table in self.tables.values())


@dataclass(frozen=True, slots=True)
class Stall:
    """Tell that records were consumed and not committed: by which tables, and since when.

    `reading` is the epoch that does not come to its end, if one does not; `kafka` tells that the
    brokers do not answer.
    """

    tables: tuple[str, ...]
    reading: int | None
    since_ms: int
    kafka: bool = False


@dataclass(frozen=True, slots=True)
class _Document:
    v: int
    written_ms: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class _Version:
    v: int


def stalled(snapshot: Snapshot, now_ms: int, interval_ms: int) -> Stall | None:
    """Tell whether records were consumed and not committed for two commit intervals.

    The one alert that matters (interface.md 4). A parked table counts: its records wait, too.
    """
    if snapshot.state.ended:
        return None
    before_ms = now_ms - STALLED_AFTER_INTERVALS * interval_ms
    waiting = {
        name: since_ms
        for name, table in sorted(snapshot.tables.items())
        if (since_ms := _waits_since(table)) is not None and since_ms < before_ms
    }
    reading = snapshot.reading
    since = reading.since_ms if reading is not None else None
    late = reading.epoch if reading and since is not None and since < before_ms else None
    silence = snapshot.silence
    mute = silence is not None and silence.since_ms < before_ms
    mute = mute and silence is not None and now_ms - silence.told_ms < SILENT_FOR_MS
    if not waiting and late is None and not mute:
        return None
    times = [*waiting.values(), *([since] if late is not None and since is not None else [])]
    times += [silence.since_ms] if mute and silence is not None else []
    return Stall(tuple(waiting), late, min(times), mute)


def _waits_since(table: TableStatus) -> int | None:
    """Tell since when records of a table wait: written and not visible, or since it is parked."""
    times = [each.since_ms for each in table.pending[:1]]
    times += [table.parked.since_ms] if table.parked else []
    return min(times, default=None)


def rows_per_second(table: TableStatus, now_ms: int, *, started_ms: int) -> float:
    """Give the rows landed per second over the last half minute, or since the start if shorter."""
    begun_ms = max(now_ms - RATE_WINDOW_MS, started_ms)
    if table.recent and len(table.recent) == RECENT_COMMITS_MAX:
        begun_ms = max(begun_ms, table.recent[0][0])
    rows = sum(rows for at_ms, rows in table.recent if at_ms > begun_ms)
    return rows / max((now_ms - begun_ms) / 1000, 1.0)


def to_json(snapshot: Snapshot, *, written_ms: int) -> bytes:
    """Write a snapshot as one JSON document, with the time at which that was done."""
    return msgspec.json.encode(_Document(SNAPSHOT_VERSION, written_ms, snapshot), order="sorted")


def from_json(text: bytes) -> tuple[Snapshot, int]:
    """Read a snapshot and the time it was written.

    Raises InvalidError (P590) when it is not one, or of a newer version.
    """
    try:
        version = msgspec.json.decode(text, type=_Version).v
        if version != SNAPSHOT_VERSION:
            raise InvalidError(
                f"the status is of version {version}; this Penstock reads {SNAPSHOT_VERSION}",
                code="P590",
                hint="ask with the same version of penstock that runs the pipeline",
            )
        document = msgspec.json.decode(text, type=_Document)
    except msgspec.MsgspecError as error:
        raise InvalidError(
            f"the status cannot be read: {error}",
            code="P590",
            hint="remove the status file; a running pipeline writes it again within a second",
        ) from error
    return document.snapshot, document.written_ms
