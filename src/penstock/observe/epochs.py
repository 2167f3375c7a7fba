"""The newest epochs of a run, phase by phase, as events tell of them.

Invariants: pure; the newest `RECENT_EPOCHS_MAX` are kept, oldest first; an epoch has landed with a
commit of it, or of a later one that joined it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.core.events import EpochPlanned, EpochPrepared, SliceRead, TableCommitted
from penstock.observe.snapshot import RECENT_EPOCHS_MAX, EpochStatus

Epochs = tuple[EpochStatus, ...]


def with_planned(epochs: Epochs, event: EpochPlanned, now_ms: int) -> Epochs:
    """Add an epoch that has something to read."""
    if not event.records:
        return epochs
    planned = EpochStatus(event.epoch, now_ms, event.records, event.slices)
    others = [each for each in epochs if each.epoch != event.epoch]
    return (*others, planned)[-RECENT_EPOCHS_MAX:]


def with_slice(epochs: Epochs, event: SliceRead, now_ms: int) -> Epochs:
    """Count a slice that was read, and name the slowest."""

    def read(epoch: EpochStatus) -> EpochStatus:
        counted = replace(epoch, slices_read=epoch.slices_read + 1, read_ms=now_ms)
        if event.seconds < epoch.slowest_slice_seconds:
            return counted
        return replace(counted, slowest_slice=event.slice, slowest_slice_seconds=event.seconds)

    return _changed(epochs, event.epoch, read)


def with_prepared(epochs: Epochs, event: EpochPrepared, now_ms: int) -> Epochs:
    """Note that all commits of an epoch are prepared."""
    return _changed(epochs, event.epoch, lambda epoch: replace(epoch, prepared_ms=now_ms))


def with_commit(epochs: Epochs, event: TableCommitted, now_ms: int) -> Epochs:
    """Count a commit, name the slowest, and end the epochs before that it joined."""

    def committed(epoch: EpochStatus) -> EpochStatus:
        counted = replace(epoch, commits=epoch.commits + 1, committed_ms=now_ms)
        if event.seconds < epoch.slowest_table_seconds:
            return counted
        return replace(counted, slowest_table=event.table, slowest_table_seconds=event.seconds)

    joined = tuple(
        replace(each, committed_ms=now_ms)
        if each.epoch < event.epoch and each.prepared_ms and each.committed_ms is None
        else each
        for each in epochs
    )
    return _changed(joined, event.epoch, committed)


def _changed(epochs: Epochs, number: int, change: Callable[[EpochStatus], EpochStatus]) -> Epochs:
    return tuple(change(each) if each.epoch == number else each for each in epochs)
