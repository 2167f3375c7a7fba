"""Why publications stopped last, until a run goes on; for `penstock status`, on every host.

It is in a file on the host of the run, and beside the pending store, for whoever looks elsewhere.

Invariants:
- nothing depends on either: what cannot be written or read is as if it were not there;
- a reader sees a whole document or the one before it;
- beside the store an elder owner never replaces what a younger one wrote (docs/design/0342), and
  who stopped since another run has the publication says nothing of it.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.core.claims import publication_claim
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import PenstockError
from penstock.core.events import Event
from penstock.core.publication_events import PublicationStarted, PublicationStopped
from penstock.core.store_errors import ALIVE
from penstock.ports.reports import Report, Reports
from penstock.ports.runtime import Clock

OF_OTHERS = frozenset({ALIVE, "P501", "P804"})
"""Codes of a run that ends, or waits, since another one has the publication."""
GOES_ON = b"{}"
"""What stands beside the store once a run goes on."""


@dataclass(frozen=True, slots=True)
class LastStop:
    """Why and when a run of a publication stopped; `waits`: it is tried again."""

    code: str
    reason: str
    at_ms: int
    waits: bool = False


class LastStops:
    """Listens to runs of a pipeline's publications; each file has one writer, its thread."""

    def __init__(
        self, folder: Path, pipeline: str, clock: Clock, reports: Reports | None = None
    ) -> None:
        self._folder, self._pipeline, self._clock = folder, pipeline, clock
        self._reports, self._guard = reports, threading.Lock()

    def __call__(self, event: Event) -> None:
        """Note a stop that an error caused; forget it where a run goes on."""
        match event:
            case PublicationStarted(publication=name):
                with suppress(OSError):
                    _path(self._folder, self._pipeline, name).unlink(missing_ok=True)
                self._report(name, event.generation, GOES_ON)
            case PublicationStopped(publication=name, clean=False) if event.code not in OF_OTHERS:
                stop = LastStop(event.code, event.reason, self._clock.now_ms(), event.waits)
                body = json.dumps(asdict(stop)).encode()
                with suppress(OSError):
                    self._write(_path(self._folder, self._pipeline, name), body)
                self._report(name, event.generation, body)

    def passed(self, point: CrashPoint) -> None:
        """Let it pass."""

    def close(self) -> None:
        """Let go of the store."""
        if self._reports is not None:
            self._reports.close()

    def _report(self, name: str, generation: int, body: bytes) -> None:
        if self._reports is not None:
            with suppress(PenstockError), self._guard:
                self._reports.keep(publication_claim(self._pipeline, name), generation, body, [])

    def _write(self, path: Path, body: bytes) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(body)
        temporary.replace(path)


def last_stop(
    folder: Path, pipeline: str, publication: str, reports: Reports | None, now_ms: int
) -> LastStop | None:
    """Return why a publication stopped, if no run has gone on since: the newer of what is known."""
    here, there = _read(folder, pipeline, publication), _reported(reports, pipeline, publication)
    if there is None:
        return here
    is_newer = here is None or there.age_ms < abs(now_ms - here.at_ms)
    return _stop_of(there.body) if is_newer else here


def _read(folder: Path, pipeline: str, publication: str) -> LastStop | None:
    with suppress(OSError):
        return _stop_of(_path(folder, pipeline, publication).read_bytes())
    return None


def _reported(reports: Reports | None, pipeline: str, publication: str) -> Report | None:
    with suppress(PenstockError):
        if reports is not None:
            return reports.newest(publication_claim(pipeline, publication))
    return None


def _stop_of(body: bytes) -> LastStop | None:
    """Read a stop; None of what is none."""
    with suppress(ValueError, KeyError, TypeError):
        data: dict[str, Any] = json.loads(body)
        at_ms, waits = int(data["at_ms"]), bool(data["waits"])
        return LastStop(str(data["code"]), str(data["reason"]), at_ms, waits)
    return None


def _path(folder: Path, pipeline: str, publication: str) -> Path:
    return folder / f"{pipeline}.{quote(publication, safe='')}.stopped.json"
