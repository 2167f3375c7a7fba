"""What a run says of itself, wherever it runs: in the store, and in the status file of its host.

Invariants: it only adds to what tables and store say; its times are those of the process that wrote
it, and so are ages: its own time of writing, and how long that is ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.app.assembly import assembly
from penstock.app.assembly.state_folder import state_folder
from penstock.core.errors import PenstockError
from penstock.observe.reporting import Happenings, Reporter
from penstock.observe.snapshot import Snapshot, from_json
from penstock.observe.status import SILENT_AFTER_MS, StatusBoard, read_status, status_path
from penstock.ports.reports import Report
from penstock.ports.runtime import Clock
from penstock.spec.model import Pipeline


@dataclass(frozen=True, slots=True)
class Reported:
    """A snapshot as a run wrote it, `age_ms` ago; at `now_ms` by the clock of that run."""

    snapshot: Snapshot
    age_ms: int
    now_ms: int

    @property
    def is_silent(self) -> bool:
        """Return whether its process ended without saying so; one from the future counts as old."""
        return not self.snapshot.state.ended and abs(self.age_ms) > SILENT_AFTER_MS


@contextmanager
def reported(
    pipeline: Pipeline,
    board: StatusBoard,
    happenings: Happenings,
    clock: Clock,
    complain: Callable[[str], None],
) -> Iterator[None]:
    """Report what a board knows, and what happened, to the store inside the block."""
    reports = assembly.open_reports(pipeline)
    if reports is None:
        yield
        return
    reporter = Reporter(
        reports, board, happenings, clock, cpu_seconds=time.thread_time, complain=complain
    )
    with reporter:
        yield


def status_file(pipeline: Pipeline) -> Path:
    """Return the place of the status file."""
    return status_path(state_folder(pipeline), pipeline.name)


def newest_report(pipeline: Pipeline, now_ms: int) -> Reported | None:
    """Return what the run of the highest generation wrote last; None where none did.

    A store that does not give it away says nothing. Raises what `read_status` raises.
    """
    return newest_of(pipeline, _kept(pipeline), now_ms)


def newest_of(pipeline: Pipeline, kept: Report | None, now_ms: int) -> Reported | None:
    """Return the newer of what the store kept and the status file. Raises what both raise."""
    written = read_status(status_file(pipeline))
    known = [] if written is None else [Reported(written[0], now_ms - written[1], now_ms)]
    if kept is not None:
        snapshot, written_ms = from_json(kept.body)
        known.append(Reported(snapshot, kept.age_ms, written_ms + kept.age_ms))
    return max(known, key=lambda each: (each.snapshot.generation, -abs(each.age_ms)), default=None)


def _kept(pipeline: Pipeline) -> Report | None:
    with suppress(PenstockError):
        reports = assembly.open_reports(pipeline)
        if reports is not None:
            with closing(reports):
                return reports.newest(pipeline.name)
    return None
