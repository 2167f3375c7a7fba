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

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from penstock.core import events, leadership_events, maintenance_events
from penstock.core.events import Event
from penstock.observe.epochs import with_commit, with_planned, with_prepared, with_slice
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
    Widened,
)

HEALED = "healed"


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
                widened=None,
                epochs=(),
            )
        case leadership_events.StandbyChanged() | leadership_events.LeadershipGained():
            after = _in_turn(snapshot, event)
        case events.WaitBegan():
            after = _waits(snapshot, Waiting(event.what, now_ms))
        case events.BacklogCounted():
            after = _with_lag(snapshot, event, beyond=sum(event.lag.values()) > 0)
        case events.EpochPlanned():
            after = _planned(snapshot, event, now_ms)
        case events.SliceRead():
            after = _read(snapshot, event, now_ms)
        case events.EpochPrepared():
            epochs = with_prepared(snapshot.epochs, event, now_ms)
            after = replace(snapshot, reading=None, waiting=None, epochs=epochs)
        case events.CoordinatorFenced():
            reason = f"generation {event.by_generation} of {event.by_owner} took over"
            after = replace(snapshot, state=State.STOPPING, reason=reason)
        case events.PipelineStopped():
            after = replace(
                snapshot,
                state=State.FAILED if event.code else State.STOPPED,
                reading=None,
                waiting=None,
                reason=event.reason,
                code=event.code,
                clean=event.clean,
            )
        case events.PartitionStalled(partition="all"):
            after = replace(snapshot, silence=_silence(snapshot.silence, now_ms))
        case events.KafkaAnswered():
            after = replace(snapshot, silence=None)
        case _:
            after = _of_table(snapshot, event, now_ms)
    return replace(_settled(after), updated_ms=now_ms)


def _in_turn(
    snapshot: Snapshot, event: leadership_events.StandbyChanged | leadership_events.LeadershipGained
) -> Snapshot:
    """Return the snapshot of a stand-by, or of one whose turn begins: what was before is over."""
    anew = initial(event.pipeline, snapshot.started_ms)
    if isinstance(event, leadership_events.LeadershipGained):
        return anew
    return replace(anew, state=State.STANDBY, reason=event.text)


def stopping(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot once the coordinator was asked to stop."""
    return snapshot if snapshot.state.ended else replace(snapshot, state=State.STOPPING)


def _of_table(snapshot: Snapshot, event: Event, now_ms: int) -> Snapshot:
    match event:
        case events.CommitFoundLanded() | events.CommitAborted() if snapshot.recovering > 0:
            # An earlier run's commits come first.
            return replace(snapshot, recovering=snapshot.recovering - 1)
        case maintenance_events.EpochsWidened() | maintenance_events.EpochsNarrowed():
            return replace(snapshot, widened=_widened(snapshot.widened, event))
        case events.TableCommitted():
            epochs = with_commit(snapshot.epochs, event, now_ms)
            recovering = max(snapshot.recovering - 1, 0)
            snapshot = replace(snapshot, recovering=recovering, epochs=epochs)
        case (
            events.TableCreated()
            | events.FilesWritten()
            | events.CommitFoundLanded()
            | events.CommitAborted()
            | events.TableParked()
            | events.TableResumed()
            | events.TableAbandoned()
            | events.PauseBegan()
            | events.PauseEnded()
            | events.RecordsQuarantined()
            | maintenance_events.LayoutMeasured()
            | maintenance_events.TableMaintained()
        ):
            pass
        case _:
            return snapshot
    table = _changed(snapshot.tables.get(event.table, TableStatus()), event, now_ms)
    return replace(snapshot, tables={**snapshot.tables, event.table: table})


def _changed(table: TableStatus, event: Event, now_ms: int) -> TableStatus:
    match event:
        case events.FilesWritten():
            others = [pending for pending in table.pending if pending.epoch != event.epoch]
            own = PendingEpoch(event.epoch, event.rows, now_ms)
            in_order = sorted([*others, own], key=lambda pending: pending.epoch)
            return replace(table, pending=tuple(in_order))
        case events.TableCommitted():
            return _landed(table, event, now_ms)
        case events.CommitFoundLanded() | events.CommitAborted():
            return replace(table, pending=table.pending[1:])
        case events.TableParked():
            since_ms = now_ms if table.parked is None else table.parked.since_ms
            return replace(table, parked=Parked(event.code, event.reason, since_ms))
        case events.TableResumed() | events.TableAbandoned():
            return replace(table, parked=None)
        case events.PauseBegan():
            return replace(table, paused_until_ms=event.until_ms)
        case events.PauseEnded():  # what was held back waits from now on
            pending = tuple(replace(each, since_ms=now_ms) for each in table.pending)
            return replace(table, paused_until_ms=None, pending=pending)
        case events.RecordsQuarantined():
            counts = Counter(table.quarantined)
            counts.update(event.codes)
            return replace(table, quarantined=dict(sorted(counts.items())))
        case maintenance_events.LayoutMeasured():
            return replace(table, health=event.health)
        case maintenance_events.TableMaintained() if event.files_before and table.health:
            before, after = event.files_before, event.files_after
            return replace(table, health=table.health.after_maintenance(before, after, now_ms))
        case _:
            return table


def _widened(
    before: Widened | None,
    event: maintenance_events.EpochsWidened | maintenance_events.EpochsNarrowed,
) -> Widened | None:
    seconds = event.every_seconds, event.usual_seconds
    if isinstance(event, maintenance_events.EpochsWidened):
        return Widened(event.table, event.excess_files, *seconds)
    if before is None or event.every_seconds <= event.usual_seconds:
        return None
    return replace(before, every_seconds=event.every_seconds)


def _waits(snapshot: Snapshot, waiting: Waiting) -> Snapshot:
    """Begin a wait; one for the same thing keeps the time since when it lasts."""
    before = snapshot.waiting
    is_same = before is not None and before.what == waiting.what
    if is_same or (snapshot.state is not State.STARTING and snapshot.reading is None):
        return snapshot
    return replace(snapshot, waiting=waiting)


def _planned(snapshot: Snapshot, event: events.EpochPlanned, now_ms: int) -> Snapshot:
    after = _with_lag(snapshot, event, beyond=sum(event.lag.values()) > event.records)
    reading = Reading(event.epoch) if event.records else None
    epochs = with_planned(snapshot.epochs, event, now_ms)
    return replace(after, epoch=event.epoch, recovering=0, reading=reading, epochs=epochs)


def _with_lag(
    snapshot: Snapshot, event: events.BacklogCounted | events.EpochPlanned, *, beyond: bool
) -> Snapshot:
    """Apply the lags of topics and tables; `beyond`: there is more than is being read."""
    tables = {**snapshot.tables}
    for name, lag in event.table_lag.items():
        table = tables.get(name, TableStatus())
        # A parked table lands nothing, so its lag never shrinks.
        least = table.lag_records or 0 if table.parked else 0
        tables[name] = replace(table, lag_records=max(lag, least))
    is_ending = snapshot.state.ended or snapshot.state is State.STOPPING
    state = State.CATCHING_UP if beyond else State.RUNNING
    return replace(
        snapshot,
        state=snapshot.state if is_ending else state,
        silence=None,
        waiting=None,
        lag=dict(event.lag),
        tables=tables,
    )


def _read(snapshot: Snapshot, event: events.SliceRead, now_ms: int) -> Snapshot:
    before = snapshot.reading
    if before is None or before.epoch != event.epoch or not event.records:
        return snapshot
    since_ms = now_ms if before.since_ms is None else before.since_ms
    reading = Reading(event.epoch, before.records + event.records, since_ms)
    epochs = with_slice(snapshot.epochs, event, now_ms)
    return replace(snapshot, reading=reading, waiting=None, epochs=epochs)


def _silence(before: Silence | None, now_ms: int) -> Silence:
    if before is None or now_ms - before.reported_ms > SILENT_FOR_MS:
        return Silence(now_ms, now_ms)
    return replace(before, reported_ms=now_ms)


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


def _landed(table: TableStatus, event: events.TableCommitted, now_ms: int) -> TableStatus:
    left = tuple(pending for pending in table.pending if pending.epoch > event.epoch)
    health = table.health
    if health is not None and event.files:
        health = health.after_commit(event.files, event.size_bytes)
    through_ms = [at for at in (table.valid_through_ms, event.valid_through_ms) if at is not None]
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
        valid_through_ms=max(through_ms, default=None),
        recent=(*table.recent, (now_ms, _landed_records(event)))[-RECENT_COMMITS_MAX:],
        changes=_added(table.changes, event.changes),
        rewritten_bytes=table.rewritten_bytes + event.rewritten_bytes,
        health=health,
    )


def _landed_records(event: events.TableCommitted) -> int:
    """Count what landed: rows, or changes of rows; what was healed is no change."""
    if not event.changes:
        return event.rows
    return sum(count for what, count in event.changes.items() if what != HEALED)


def _added(counts: Mapping[str, int], more: Mapping[str, int]) -> Mapping[str, int]:
    return {what: counts.get(what, 0) + more.get(what, 0) for what in {**counts, **more}}
