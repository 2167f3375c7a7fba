"""The reducer of events: each changes the snapshot of a pipeline.

Invariants:
- pure: a snapshot, an event and a time give the next snapshot;
- an epoch is pending at a table from the moment its files are written until a commit of that epoch
  or a later one; committing goes in epoch order (protocol.md 6), so this holds for joined commits;
- an ended pipeline stays ended, whatever event a late thread still sends;
- a wait is shown until the backlog is counted, and while an epoch is read: at other times a table
  that opens delays nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.core import events
from penstock.core.events import Event
from penstock.observe.snapshot import (
    RECENT_COMMITS_MAX,
    SILENT_FOR_MS,
    LastCommit,
    Parked,
    PendingEpoch,
    Reading,
    Silence,
    Snapshot,
    State,
    TableStatus,
    Waiting,
)


def initial(pipeline: str, now_ms: int, *, tables: tuple[str, ...] = ()) -> Snapshot:
    """Return the snapshot of a pipeline before its first event."""
    return Snapshot(
        pipeline, State.STARTING, now_ms, now_ms, tables={name: TableStatus() for name in tables}
    )


def apply(snapshot: Snapshot, event: Event, now_ms: int) -> Snapshot:
    """Return the snapshot after an event; one that says nothing about status changes only times."""
    match event:
        case events.PipelineStarted():
            after = replace(
                snapshot,
                pipeline=event.pipeline,
                state=State.STARTING,
                started_ms=now_ms,
                generation=event.generation,
                owner=event.owner,
                recovering=event.pending,
            )
        case events.WaitBegan():
            after = _waits(snapshot, Waiting(event.what, now_ms))
        case events.BacklogCounted():
            after = _behind(snapshot, event, beyond=sum(event.lag.values()) > 0)
        case events.EpochPlanned():
            after = _planned(snapshot, event)
        case events.SliceRead():
            after = _read(snapshot, event, now_ms)
        case events.EpochPrepared():
            after = replace(snapshot, reading=None, waiting=None)
        case events.CoordinatorFenced():
            reason = f"generation {event.by_generation} of {event.by_owner} took over"
            after = replace(snapshot, state=State.STOPPING, reason=reason)
        case events.PipelineStopped():
            after = _stopped(snapshot, event)
        case events.PartitionStalled(partition="all"):
            after = replace(snapshot, silence=_silence(snapshot.silence, now_ms))
        case events.KafkaAnswered():
            after = replace(snapshot, silence=None)
        case _:
            after = _of_table(snapshot, event, now_ms)
    return replace(_settled(after), updated_ms=now_ms)


def stopping(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot once the coordinator was asked to stop."""
    return snapshot if snapshot.state.ended else replace(snapshot, state=State.STOPPING)


def _of_table(snapshot: Snapshot, event: Event, now_ms: int) -> Snapshot:
    match event:
        case events.TableCreated():
            return _changed(snapshot, event.table, lambda table: table)
        case events.FilesWritten():
            waiting = PendingEpoch(event.epoch, event.rows, now_ms)
            return _changed(snapshot, event.table, lambda table: _written(table, waiting))
        case events.TableCommitted():
            after = _one_recovered_less(snapshot)
            return _changed(after, event.table, lambda table: _landed(table, event, now_ms))
        case events.CommitFoundLanded() | events.CommitAborted():
            return _found(snapshot, event.table)
        case events.TableParked():
            parked = Parked(event.code, event.reason, now_ms)
            return _changed(snapshot, event.table, lambda table: _parked(table, parked))
        case events.TableResumed() | events.TableLeft():
            return _changed(snapshot, event.table, lambda table: replace(table, parked=None))
        case events.RecordsQuarantined():
            return _changed(snapshot, event.table, lambda table: _quarantined(table, event))
        case _:
            return snapshot


def _changed(
    snapshot: Snapshot, name: str, change: Callable[[TableStatus], TableStatus]
) -> Snapshot:
    before = snapshot.tables.get(name, TableStatus())
    return replace(snapshot, tables={**snapshot.tables, name: change(before)})


def _waits(snapshot: Snapshot, waiting: Waiting) -> Snapshot:
    """Begin a wait; one for the same thing keeps the time since when it lasts."""
    before = snapshot.waiting
    is_same = before is not None and before.what == waiting.what
    if is_same or (snapshot.state is not State.STARTING and snapshot.reading is None):
        return snapshot
    return replace(snapshot, waiting=waiting)


def _planned(snapshot: Snapshot, event: events.EpochPlanned) -> Snapshot:
    after = _behind(snapshot, event, beyond=sum(event.lag.values()) > event.records)
    reading = Reading(event.epoch) if event.records else None
    return replace(after, epoch=event.epoch, recovering=0, reading=reading)


def _behind(
    snapshot: Snapshot, event: events.BacklogCounted | events.EpochPlanned, *, beyond: bool
) -> Snapshot:
    """Apply the lags of topics and tables; `beyond`: there is more than is being read."""
    tables = {
        name: _lagging(snapshot.tables.get(name, TableStatus()), behind)
        for name, behind in event.behind.items()
    }
    is_ending = snapshot.state.ended or snapshot.state is State.STOPPING
    state = State.CATCHING_UP if beyond else State.RUNNING
    return replace(
        snapshot,
        state=snapshot.state if is_ending else state,
        silence=None,
        waiting=None,
        lag=dict(event.lag),
        tables={**snapshot.tables, **tables},
    )


def _lagging(table: TableStatus, behind: int) -> TableStatus:
    """Set the lag of a table; a parked one lands nothing, so its lag never shrinks."""
    least = table.lag_records or 0 if table.parked else 0
    return replace(table, lag_records=max(behind, least))


def _read(snapshot: Snapshot, event: events.SliceRead, now_ms: int) -> Snapshot:
    before = snapshot.reading
    if before is None or before.epoch != event.epoch or not event.records:
        return snapshot
    since_ms = now_ms if before.since_ms is None else before.since_ms
    reading = Reading(event.epoch, before.records + event.records, since_ms)
    return replace(snapshot, reading=reading, waiting=None)


def _silence(before: Silence | None, now_ms: int) -> Silence:
    if before is None or now_ms - before.told_ms > SILENT_FOR_MS:
        return Silence(now_ms, now_ms)
    return replace(before, told_ms=now_ms)


def _stopped(snapshot: Snapshot, event: events.PipelineStopped) -> Snapshot:
    return replace(
        snapshot,
        state=State.FAILED if event.code else State.STOPPED,
        reading=None,
        waiting=None,
        reason=event.reason,
        code=event.code,
        clean=event.clean,
    )


def _settled(snapshot: Snapshot) -> Snapshot:
    """Call a pipeline idle that planned all there was and has committed all it planned.

    Nothing lags then, but at parked tables.
    """
    busy = snapshot.reading is not None or snapshot.pending > 0
    if snapshot.state is State.IDLE and busy:
        return replace(snapshot, state=State.RUNNING)
    if snapshot.state is not State.RUNNING or busy:
        return snapshot
    tables = {
        name: table if table.parked or not table.lag_records else replace(table, lag_records=0)
        for name, table in snapshot.tables.items()
    }
    return replace(snapshot, state=State.IDLE, lag=dict.fromkeys(snapshot.lag, 0), tables=tables)


def _written(table: TableStatus, waiting: PendingEpoch) -> TableStatus:
    others = [pending for pending in table.pending if pending.epoch != waiting.epoch]
    in_order = sorted([*others, waiting], key=lambda pending: pending.epoch)
    return replace(table, pending=tuple(in_order))


def _landed(table: TableStatus, event: events.TableCommitted, now_ms: int) -> TableStatus:
    left = tuple(pending for pending in table.pending if pending.epoch > event.epoch)
    return replace(
        table,
        rows=table.rows + event.rows,
        commits=table.commits + 1,
        files=table.files + event.files,
        size_bytes=table.size_bytes + event.size_bytes,
        last_commit=LastCommit(
            now_ms,
            event.epoch,
            event.kind,
            event.rows,
            event.files,
            event.size_bytes,
            event.snapshot,
            event.seconds,
        ),
        pending=left,
        valid_through_ms=_later(table.valid_through_ms, event.valid_through_ms),
        recent=(*table.recent, (now_ms, event.rows))[-RECENT_COMMITS_MAX:],
    )


def _found(snapshot: Snapshot, name: str) -> Snapshot:
    """Settle a table's oldest commit without landing rows; an earlier run's commits come first."""
    if snapshot.recovering > 0:
        return _one_recovered_less(snapshot)
    return _changed(snapshot, name, lambda table: replace(table, pending=table.pending[1:]))


def _one_recovered_less(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, recovering=max(snapshot.recovering - 1, 0))


def _parked(table: TableStatus, parked: Parked) -> TableStatus:
    """Park a table; one that is parked keeps the time since when."""
    since_ms = parked.since_ms if table.parked is None else table.parked.since_ms
    return replace(table, parked=replace(parked, since_ms=since_ms))


def _quarantined(table: TableStatus, event: events.RecordsQuarantined) -> TableStatus:
    codes = sorted({*table.quarantined, *event.codes})
    counts = {code: table.quarantined.get(code, 0) + event.codes.get(code, 0) for code in codes}
    return replace(table, quarantined=counts)


def _later(first: int | None, second: int | None) -> int | None:
    known = [value for value in (first, second) if value is not None]
    return max(known) if known else None
