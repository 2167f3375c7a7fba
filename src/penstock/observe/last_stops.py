"""Why publications stopped last, kept in a file each until a run goes on; for `penstock status`.

Invariants:
- nothing depends on a file: one that cannot be written or read is as if there were none;
- a reader sees a whole document or the one before it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event
from penstock.core.publication_events import PublicationStarted, PublicationStopped
from penstock.ports.runtime import Clock


@dataclass(frozen=True, slots=True)
class LastStop:
    """Why and when a run of a publication on this machine stopped; `waits`: it is tried again."""

    code: str
    reason: str
    at_ms: int
    waits: bool = False


class LastStops:
    """Listens to runs of a pipeline's publications; each file has one writer, its thread."""

    def __init__(self, folder: Path, pipeline: str, clock: Clock) -> None:
        self._folder, self._pipeline, self._clock = folder, pipeline, clock

    def __call__(self, event: Event) -> None:
        """Note a stop that an error caused; forget it where a run goes on."""
        match event:
            case PublicationStarted(publication=name):
                with suppress(OSError):
                    _path(self._folder, self._pipeline, name).unlink(missing_ok=True)
            case PublicationStopped(publication=name, clean=False):
                stop = LastStop(event.code, event.reason, self._clock.now_ms(), event.waits)
                with suppress(OSError):
                    self._write(_path(self._folder, self._pipeline, name), stop)

    def passed(self, point: CrashPoint) -> None:
        """Let it pass."""

    def _write(self, path: Path, stop: LastStop) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {"code": stop.code, "reason": stop.reason, "at": stop.at_ms, "waits": stop.waits}
        temporary.write_text(json.dumps(data), "utf-8")
        temporary.replace(path)


def last_stop(folder: Path, pipeline: str, publication: str) -> LastStop | None:
    """Return why a publication stopped on this machine, if no run has gone on since."""
    try:
        data = json.loads(_path(folder, pipeline, publication).read_bytes())
        return LastStop(
            str(data["code"]), str(data["reason"]), int(data["at"]), bool(data["waits"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _path(folder: Path, pipeline: str, publication: str) -> Path:
    return folder / f"{pipeline}.{quote(publication, safe='')}.stopped.json"
