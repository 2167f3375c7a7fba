"""The status of a running pipeline: kept in this process, and in a file for others to read.

Invariants:
- the board only remembers; the file is written by a thread of its own, at most once a second, and
  at least every five while the pipeline lives, so that its age tells whether somebody is there,
  also when the wall clock is set back;
- a reader sees a whole document or the one before it; nothing depends on the file being there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import UnavailableError
from penstock.core.events import Event
from penstock.observe.periodic import Periodic
from penstock.observe.reducer import apply, initial, stopping
from penstock.observe.snapshot import Snapshot, from_json, to_json
from penstock.ports.runtime import Clock

WRITE_EVERY_MS = 1_000
WRITE_AT_LEAST_EVERY_MS = 5_000
SILENT_AFTER_MS = 3 * WRITE_AT_LEAST_EVERY_MS


class StatusBoard:
    """Listen to events and give the snapshot they add up to; safe for threads."""

    def __init__(self, pipeline: str, clock: Clock, *, tables: tuple[str, ...] = ()) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._snapshot = initial(pipeline, clock.now_ms(), tables=tables)

    def __call__(self, event: Event) -> None:
        """Take an event into the snapshot."""
        now_ms = self._clock.now_ms()
        with self._guard:
            self._snapshot = apply(self._snapshot, event, now_ms)

    def passed(self, point: CrashPoint) -> None:
        """Notice that the pipeline was asked to end; other points say nothing about status."""
        if point is CrashPoint.STOPPING:
            with self._guard:
                self._snapshot = stopping(self._snapshot)

    def snapshot(self) -> Snapshot:
        """Return what is known now."""
        with self._guard:
            return self._snapshot


class StatusFile:
    """Keep a board's snapshot in a file, from entering the `with` block to leaving it.

    A file that cannot be written is told once through `complain` and tried again; the pipeline
    goes on without it.
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
        self._thread = Periodic(
            self.write_if_due, every_seconds=WRITE_EVERY_MS / 1000, name="status-file"
        )

    def __enter__(self) -> Self:
        self.write_if_due()
        self._thread.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.__exit__(kind, error, trace)
        self._write(self._board.snapshot())

    def write_if_due(self) -> bool:
        """Write the file when there is news and a second has passed, or nothing for five.

        Returns whether it did.
        """
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
        aside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(to_json(snapshot, written_ms=self._clock.now_ms()))
            aside.replace(self._path)
        except OSError as error:
            if not self._complained:
                self._complain(f"the status file {self._path} cannot be written: {error.strerror}")
            self._complained = True


def status_path(directory: Path, pipeline: str) -> Path:
    """Name the status file of a pipeline in a directory."""
    return directory / f"{pipeline}.status.json"


def read_status(path: Path) -> tuple[Snapshot, int] | None:
    """Read what another process last wrote, and when; None when there is no file.

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
            hint=f"look at its permissions: ls -l {path}",
        ) from error
    return from_json(text)


def silent(snapshot: Snapshot, written_ms: int, now_ms: int) -> bool:
    """Return whether the process that wrote a status is gone without having said so.

    One from times to come is as old: the clock was set back since, and nobody wrote it anew.
    """
    return not snapshot.state.ended and abs(now_ms - written_ms) > SILENT_AFTER_MS
