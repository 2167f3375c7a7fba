"""The state of a pipeline at one moment, and its versioned JSON form.

Invariants:
- a snapshot is made of events alone; it is for people, and decides nothing of what lands: only how
  far apart epochs are, where a table has too many files;
- times are epoch milliseconds; ages and rates are computed for a `now` that the caller gives;
- the JSON form only grows: a reader ignores keys it does not know and refuses a newer version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from penstock.core.errors import InvalidError
from penstock.core.hold import HELD
from penstock.core.maintenance import LOOKED_AT_MAX, TableHealth

SNAPSHOT_VERSION = 1

RATE_WINDOW_MS = 30_000
RECENT_COMMITS_MAX = 64
RECENT_EPOCHS_MAX = 32
STALLED_AFTER_INTERVALS = 2
SILENT_FOR_MS = 60_000
"""When its silence was not reported for so long, Kafka is assumed to answer again."""


class State(StrEnum):
    """What a pipeline is doing."""

    STANDBY = "stand-by"
    STARTING = "starting"
    RUNNING = "running"
    CATCHING_UP = "catching up"
    IDLE = "idle"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Return whether nothing more will happen in this run."""
        return self in {State.STOPPED, State.FAILED}


@dataclass(frozen=True, slots=True)
class PendingEpoch:
    """An epoch with files of a table that are written and not yet visible."""

    epoch: int
    rows: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The newest commit of a table in this run."""

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
    """Why a table is parked, and since when."""

    code: str
    reason: str
    since_ms: int
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table; totals are those of this run. `recent` holds (time, rows) of new commits, where
    each change of a keyed table counts as a row; `changes` are totals by what they did, and
    `rewritten_bytes` the size of the files that were written again for them.

    Nothing is committed before `paused_until_ms`, where somebody paused the table.
    Where the table was read, `table_rows` and `table_files` count all its rows and data files,
    whichever writer they are from, and `offsets` are the next to land, by `topic:partition`; of
    keys that were deleted until `purged_through_ms` the rows were purged. `health` says how its
    files lie, as they were looked at last and with what this run landed since; None where nobody
    looked yet, or their metadata do not tell.
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
    changes: Mapping[str, int] = field(default_factory=dict)
    rewritten_bytes: int = 0
    table_rows: int | None = None
    offsets: Mapping[str, int] = field(default_factory=dict)
    paused_until_ms: int | None = None
    purged_through_ms: int | None = None
    table_files: int | None = None
    health: TableHealth | None = None

    def is_paused(self, now_ms: int) -> bool:
        """Return whether the table is paused."""
        return self.paused_until_ms is not None and self.paused_until_ms > now_ms

    @property
    def is_unseen(self) -> bool:
        """Return whether it has too many files to look at where somebody waits, and no run did."""
        return self.health is None and (self.table_files or 0) > LOOKED_AT_MAX

    @property
    def quarantined_total(self) -> int:
        """Return the number of records quarantined in this run."""
        return sum(self.quarantined.values())


@dataclass(frozen=True, slots=True)
class Reading:
    """An epoch that is being read; `since_ms` is when its first records arrived."""

    epoch: int
    records: int = 0
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EpochStatus:
    """An epoch of this run, and when each of its phases ended; None while it has not.

    Of its slices and of its commits the slowest is named, with how long it took.
    """

    epoch: int
    planned_ms: int
    records: int
    slices: int
    slices_read: int = 0
    read_ms: int | None = None
    prepared_ms: int | None = None
    committed_ms: int | None = None
    commits: int = 0
    slowest_slice: int | None = None
    slowest_slice_seconds: float = 0.0
    slowest_table: str = ""
    slowest_table_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Silence:
    """Since when Kafka does not answer, and when that was last reported."""

    since_ms: int
    reported_ms: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a run waits for, and since when."""

    what: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Widened:
    """How far apart epochs are, instead of `usual_seconds`, since a table has so many files too
    many.
    """

    table: str
    excess_files: int
    every_seconds: float
    usual_seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole pipeline. `recovering` counts an earlier run's commits that are still to be settled;
    `lag` is empty until it is known. `updated_ms` is 0 where no run has written its status.
    `widened` is None while epochs are as far apart as the spec says. `epochs` are the newest,
    oldest first.
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
    widened: Widened | None = None
    epochs: tuple[EpochStatus, ...] = ()

    @property
    def health(self) -> dict[str, TableHealth]:
        """Return what is known of how tables lie, by their names."""
        known = ((name, each.health) for name, each in self.tables.items())
        return {name: each for name, each in known if each is not None}

    @property
    def is_held(self) -> bool:
        """Return whether a table is so sick that epochs are wider for it, or it is parked."""
        parked = (each.parked for each in self.tables.values())
        return self.widened is not None or any(each and each.code == HELD for each in parked)

    @property
    def lag_records(self) -> int | None:
        """Return the backlog of all topics when the newest epoch was planned; None if unknown."""
        return sum(self.lag.values()) if self.lag else None

    @property
    def parked_lag_records(self) -> int | None:
        """Return the sum of the lags of parked tables; None if one of them is unknown."""
        lags = [table.lag_records for table in self.tables.values() if table.parked]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None

    @property
    def pending(self) -> int:
        """Return the number of commits that are prepared and not yet visible."""
        return sum(len(table.pending) for table in self.tables.values())


@dataclass(frozen=True, slots=True)
class Stall:
    """Records were consumed and not committed: by which tables, and since when.

    `reading` is the epoch that does not finish its reading, if any; `kafka` is set when the brokers
    do not answer.
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
    """Return the stall if records were consumed and not committed for two commit intervals.

    The one alert that matters (interface.md 4). A parked table counts: its records wait too. One
    that somebody paused does not.
    """
    if snapshot.state.ended:
        return None
    before_ms = now_ms - STALLED_AFTER_INTERVALS * interval_ms
    waiting = {}
    for name, table in sorted(snapshot.tables.items()):  # written but not visible, or parked
        since = [each.since_ms for each in (*table.pending[:1], table.parked) if each]
        if since and min(since) < before_ms and not table.is_paused(now_ms):
            waiting[name] = min(since)
    times, epoch, kafka = [*waiting.values()], None, False
    reading, silence = snapshot.reading, snapshot.silence
    if reading is not None and reading.since_ms is not None and reading.since_ms < before_ms:
        epoch = reading.epoch
        times.append(reading.since_ms)
    if silence is not None and now_ms - silence.reported_ms < SILENT_FOR_MS:
        kafka = silence.since_ms < before_ms
        times += [silence.since_ms] if kafka else []
    return Stall(tuple(waiting), epoch, min(times), kafka) if times else None


def rows_per_second(table: TableStatus, now_ms: int, *, started_ms: int) -> float:
    """Return the rows landed per second over the last half minute, or since a later start."""
    begun_ms = max(now_ms - RATE_WINDOW_MS, started_ms)
    if table.recent and len(table.recent) == RECENT_COMMITS_MAX:
        begun_ms = max(begun_ms, table.recent[0][0])
    rows = sum(rows for at_ms, rows in table.recent if at_ms > begun_ms)
    return rows / max((now_ms - begun_ms) / 1000, 1.0)


def to_json(snapshot: Snapshot, *, written_ms: int) -> bytes:
    """Return a snapshot as one JSON document, with the time of writing."""
    return msgspec.json.encode(_Document(SNAPSHOT_VERSION, written_ms, snapshot), order="sorted")


def from_json(text: bytes) -> tuple[Snapshot, int]:
    """Return the snapshot of a document and the time it was written.

    Raises InvalidError (P590) when it is not one, or of a newer version.
    """
    try:
        version = msgspec.json.decode(text, type=_Version).v
        if version != SNAPSHOT_VERSION:
            raise InvalidError(
                f"the status is of version {version}; this Penstock reads {SNAPSHOT_VERSION}",
                code="P590",
                hint="use the version of penstock that runs the pipeline",
            )
        document = msgspec.json.decode(text, type=_Document)
    except msgspec.MsgspecError as error:
        raise InvalidError(
            f"the status cannot be read: {error}",
            code="P590",
            hint="remove the status file; a running pipeline writes it again within a second",
        ) from error
    return document.snapshot, document.written_ms
