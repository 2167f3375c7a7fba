"""Puts the version after one that was examined.

Invariants:
- it says what the features of the table ask of every entry (demands.py);
- it is put only where the log is the one examined, and ends where it ended then;
- whether it is there is read back, and on a local disk synced, before it counts.
"""

from __future__ import annotations

from penstock.connectors.delta.errors import reading
from penstock.connectors.delta.log.actions import now_ms
from penstock.connectors.delta.log.commit_file import lines_of, put_if_absent
from penstock.connectors.delta.log.demands import as_demanded
from penstock.connectors.delta.log.entries import Actions
from penstock.connectors.delta.log.tail import LogTail, LogView
from penstock.core import table_errors
from penstock.files.errors import first_line
from penstock.files.storage import Storage


def put_next(tail: LogTail, view: LogView, actions: Actions) -> None:
    """Put an entry as the version after a view.

    Raises ConflictError, OutcomeUnknownError, UnavailableError, InvalidError (P431, P438).
    """
    body = lines_of(as_demanded(view, actions, now_ms()))
    with reading(tail.name):
        _require_last(tail, view)
    created = put_if_absent(tail.root, tail.name, view.version + 1, body)
    require_there(tail, view, body, created=created)


def _require_last(tail: LogTail, view: LogView) -> None:
    """Raise ConflictError unless the log is the one examined, and ends where it ended then."""
    log = tail.log
    (head_entry, later), checkpointed = log.read_with_checkpoint(view.version, view.version + 2)
    if head_entry != view.head_entry:
        if log.is_there():
            raise table_errors.moved(tail.name, "its log is another one")
        raise table_errors.missing(tail.name)
    if checkpointed > view.version or later is not None:
        tail.forget()
        raise table_errors.moved(tail.name, f"its log went on after version {view.version}")


def require_there(tail: LogTail, view: LogView, body: bytes, *, created: bool) -> None:
    """Read the version after a view back and, where it is on a local disk, sync it.

    Raises ConflictError (another's), OutcomeUnknownError (nobody's, or below a checkpoint: it
    was cleaned away before, so ours does not count).
    """
    log, version = tail.log, view.version + 1
    try:
        (found, before), checkpointed = log.read_with_checkpoint(version, view.version)
        if found is not None and found != body:
            raise table_errors.moved(tail.name, f"version {version} is another commit")
        if found is None or checkpointed >= version:
            made = "was made" if created else "was there"
            raise table_errors.in_doubt(
                tail.name, f"version {version} {made}, and the log does not say"
            )
        storage = Storage(tail.root.filesystem())
        storage.sync(log.path(version))
        storage.sync_directories()
    except OSError as error:
        raise table_errors.in_doubt(tail.name, first_line(error)) from error
    if before == view.head_entry:
        tail.landed(view, body, checkpointed)
