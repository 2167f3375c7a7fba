"""The status of a running pipeline: kept in this process, and in a file for others to read.

Invariants:
- the board only remembers; a thread of its own writes the file, at most once a second and at least
  every five seconds, so that its age shows whether the process lives, also when the wall clock is
  set back;
- a reader sees a whole document or the one before it; nothing depends on the file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import UnavailableError
from penstock.core.events import Event
from penstock.core.maintenance import TableHealth
from penstock.observe.periodic import periodic
from penstock.observe.reducer import apply, initial, stopping
from penstock.observe.snapshot import Snapshot, State, from_json, to_json
from penstock.ports.runtime import Clock

WRITE_EVERY_MS = 1_000
WRITE_AT_LEAST_EVERY_MS = 5_000
SILENT_AFTER_MS = 3 * WRITE_AT_LEAST_EVERY_MS


class StatusBoard:
    """Listen to events and keep the snapshot they add up to; safe for threads."""

    def __init__(self, pipeline: str, clock: Clock, *, tables: tuple[str, ...] = ()) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._snapshot = initial(pipeline, clock.now_ms(), tables=tables)

    def __call__(self, event: Event) -> None:
        """Apply an event to the snapshot."""
        now_ms = self._clock.now_ms()
        with self._guard:
            self._snapshot = apply(self._snapshot, event, now_ms)

    def passed(self, point: CrashPoint) -> None:
        """Note that the pipeline was asked to stop; other points do not change the status."""
        if point is CrashPoint.STOPPING:
            with self._guard:
                self._snapshot = stopping(self._snapshot)

    def snapshot(self) -> Snapshot:
        """Return what is known now."""
        with self._guard:
            return self._snapshot

    @property
    def is_standing_by(self) -> bool:
        """Return whether this process waits for its turn: another one owns the pipeline."""
        return self.snapshot().state is State.STANDBY

    def health(self) -> dict[str, TableHealth]:
        """Return what is known of how tables lie, by their names."""
        return self.snapshot().health

    @property
    def is_held(self) -> bool:
        """Return whether a table is so sick that something is held up for it."""
        return self.snapshot().is_held


class StatusFile:
    """Keep a board's snapshot in a file inside the `with` block.

    A file that cannot be written is reported once through `complain` and tried again; the pipeline
    continues without it.
    """

    def __init__(
        self, path: Path, board: StatusBoard, clock: Clock, complain: Callable[[str], None]
    ) -> None:
        self._path = path
        self._board = board
        self._clock = clock
        self._complain = complain
        self._complained = False
        self._written: tuple[Snapshot, float] | None = None
        self._writing = periodic(
            self.write_if_due, every_seconds=WRITE_EVERY_MS / 1000, name="status-file"
        )

    def __enter__(self) -> Self:
        self.write_if_due()
        self._writing.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._writing.__exit__(None, None, None)
        if not self._board.is_standing_by:
            self._write(self._board.snapshot())

    def write_if_due(self) -> bool:
        """Write the file when the snapshot changed a second ago, or after five seconds.

        Return whether it was due.
        """
        if self._board.is_standing_by:  # the file is the owner's, which may be on this host
            return False
        snapshot = self._board.snapshot()
        if self._written is not None:
            before, written = self._written
            pause_ms = WRITE_AT_LEAST_EVERY_MS if snapshot is before else WRITE_EVERY_MS
            if self._clock.monotonic() - written < pause_ms / 1000:
                return False
        self._write(snapshot)
        return True

    def _write(self, snapshot: Snapshot) -> None:
        self._written = snapshot, self._clock.monotonic()
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(to_json(snapshot, written_ms=self._clock.now_ms()))
            temporary.replace(self._path)
        except OSError as error:
            if not self._complained:
                self._complain(f"the status file {self._path} cannot be written: {error.strerror}")
            self._complained = True


def status_path(directory: Path, pipeline: str) -> Path:
    """Return the path of a pipeline's status file in a directory."""
    return directory / f"{pipeline}.status.json"


def read_status(path: Path) -> tuple[Snapshot, int] | None:
    """Return what another process last wrote, and when; None when there is no file.

    Raises InvalidError (P590) when it is not a status, UnavailableError (P591) when it cannot be
    opened.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnavailableError(
            f"the status file {path} cannot be read: {error.strerror}",
            code="P591",
            hint=f"check its permissions: ls -l {path}",
        ) from error
    return from_json(text)


def silent(snapshot: Snapshot, written_ms: int, now_ms: int) -> bool:
    """Return whether the process that wrote a status ended without writing so.

    A status from the future counts as old: the clock was set back and nothing was written since.
    """
    return not snapshot.state.ended and abs(now_ms - written_ms) > SILENT_AFTER_MS
