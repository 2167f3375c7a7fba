"""Maintenance beside a run: `penstock maintain` in a process of its own, again and again.

A process takes neither the run's interpreter nor its memory, and may die at any point: whatever it
was about yields to landing, and the next one finds the rest (docs/design/0309).

Invariants:
- at most one runs, at the lowest priority and with one thread of Arrow's;
- it ends with the run, and no end of it ends the run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock.core.maintenance_events import MaintenanceFailed, TableMaintained
from penstock.observe.periodic import periodic
from penstock.ports.runtime import Observer
from penstock.spec.model import Pipeline

_LOWEST = 19
_ENDS_WITHIN_SECONDS = 10.0
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@contextmanager
def maintained_beside(
    pipeline: Pipeline, spec: Path, observer: Observer, is_owner: Callable[[], bool]
) -> Iterator[None]:
    """Maintain the tables of a pipeline inside a `with` block, as often as its spec says.

    While this process only stands by, its owner does it.
    """
    settings = pipeline.maintain
    if settings.every_seconds is None:
        yield
        return
    only = [word for act in settings.only for word in ("--only", act)]
    words = ["maintain", "--spec", str(spec), "--yes", pipeline.name, "--json", *only]
    process = MaintenanceProcess([sys.executable, "-P", "-m", "penstock", *words], observer)

    def run_in_turn() -> None:
        if is_owner():
            process.run()

    with periodic(run_in_turn, every_seconds=settings.every_seconds, name="maintenance"):
        try:
            yield
        finally:
            process.close()


class MaintenanceProcess:
    """Runs a command that maintains tables, and reports what it did; `close` ends it for good."""

    def __init__(self, command: Sequence[str], observer: Observer) -> None:
        self._command, self._observer = command, observer
        self._lock = threading.Lock()
        self._running: subprocess.Popen[str] | None = None
        self._closed = threading.Event()

    def run(self) -> None:
        """Run the command to its end, and report it."""
        with self._lock:
            if self._closed.is_set():
                return
            try:
                process = self._running = _started(self._command)
            except OSError as error:
                self._observer(MaintenanceFailed("", f"no process could be started: {error}"))
                return
        said, complained = process.communicate()
        with self._lock:
            self._running = None
            if self._closed.is_set():
                return
        for event in _events(said, complained, process.returncode):
            self._observer(event)

    def close(self) -> None:
        """End the command, if it runs, and start none again."""
        with self._lock:
            self._closed.set()
            process = self._running
        if process is not None:
            process.terminate()
            try:
                process.wait(_ENDS_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a process of its own session, so that Ctrl-C is the run's alone."""
    process = subprocess.Popen(  # noqa: S603 - this interpreter, and Penstock's module
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**_ONE_THREAD, **os.environ},
        start_new_session=True,
    )
    with suppress(OSError):  # it has ended already
        os.setpriority(os.PRIO_PROCESS, process.pid, _LOWEST)
    return process


def _events(
    said: str, complained: str, exit_code: int
) -> Iterator[TableMaintained | MaintenanceFailed]:
    """Read what a command said of each table that it did something to, or could not."""
    try:
        data: Mapping[str, Any] = json.loads(said)
    except ValueError:
        lines = complained.strip().splitlines() or [f"exit code {exit_code}"]
        yield MaintenanceFailed("", lines[-1][:300])
        return
    if error := data.get("error"):
        yield MaintenanceFailed("", _reason(error))
        return
    for table in data["tables"]:
        for error in filter(None, [table["error"], *table["left_alone"].values()]):
            yield MaintenanceFailed(table["table"], _reason(error))
    for table in data["done"] or ():
        for error in table["errors"]:
            yield MaintenanceFailed(table["table"], _reason(error))
        done, swept = table["done"], table["swept"]
        found = TableMaintained(
            table["table"],
            done["files_before"],
            done["files_after"],
            table["expired"],
            swept["deleted"],
            swept["noted"],
        )
        if any((found.files_before, found.expired, found.deleted, found.noted)):
            yield found


def _reason(error: Mapping[str, Any]) -> str:
    return f"{error['code']}  {error['message']}"
