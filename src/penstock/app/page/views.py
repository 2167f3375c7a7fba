"""A look at a pipeline: all that is known of it at one moment, for the page.

Invariants:
- a look never waits and never fails: what could not be read is said, with the look before it;
- whatever holds more than names, counts and reasons stays out: no record, no setting of a spec.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.app.inspect.publications import PublicationView
from penstock.app.inspect.status import Status
from penstock.app.members import MemberStatus
from penstock.core.errors import PenstockError
from penstock.observe.formatting import number_of
from penstock.observe.reporting import Happenings
from penstock.observe.snapshot import stalled
from penstock.observe.status import StatusBoard
from penstock.observe.why import FLOWS, Grade, Why, why
from penstock.ports.reports import HAPPENINGS_KEPT, Happening
from penstock.ports.runtime import Clock
from penstock.spec.model import Pipeline

LOOKING = Why(Grade.HELD, "It is being looked at for the first time")


@dataclass(frozen=True, slots=True)
class PipelineView:
    """What is known of a pipeline, by `now_ms` of this host.

    `spec` is how commands name its spec, "" for the default. `status` is None until it was first
    read. `members` is None where the store knows none, `publications` where the spec has none.
    `troubles` are what could not be read now; all else is as it was before.
    """

    name: str
    now_ms: int
    spec: str = ""
    status: Status | None = None
    happenings: Sequence[Happening] = ()
    members: Sequence[MemberStatus] | None = None
    publications: Sequence[PublicationView] | None = None
    troubles: Sequence[PenstockError] = ()

    @property
    def why(self) -> Why:
        """Say why it does not move, or that it does."""
        if self.status is not None:
            return self.status.why
        if self.troubles:
            first = self.troubles[0]
            return Why(Grade.STANDS, first.message, first.code, first.hint)
        return LOOKING if self.publications is None else _why_published(self.publications)


def _why_published(views: Sequence[PublicationView]) -> Why:
    """Say why publications do not move, or that they do."""
    stopped = [(each.publication, each.problem) for each in views if each.problem is not None]
    if not stopped:
        waiting = number_of(sum(each.backlog or 0 for each in views), "record")
        return Why(Grade.FLOWS, f"{FLOWS}: {waiting} to publish")
    name, problem = stopped[0]
    others = (
        f"; {number_of(len(views) - len(stopped), 'other')}" if len(stopped) < len(views) else ""
    )
    grade = Grade.HELD if others else Grade.STANDS
    return Why(grade, f"{name}: {problem.message}{others}", problem.code, problem.hint)


class Watched(Protocol):
    """A pipeline that is looked at."""

    @property
    def name(self) -> str:
        """Return its name."""

    def view(self) -> PipelineView:
        """Return what is known now, at once."""


class OwnPipeline:
    """The pipeline of this very process, by its board: nothing is read for a look."""

    def __init__(
        self,
        pipeline: Pipeline,
        spec: str,
        board: StatusBoard,
        happenings: Happenings,
        clock: Clock,
    ) -> None:
        self._spec = spec
        self._board, self._happenings, self._clock = board, happenings, clock
        self._interval_ms = int(pipeline.commit.every_seconds * 1000)
        self._told = 0
        self._newest: deque[Happening] = deque(maxlen=HAPPENINGS_KEPT)
        self.name = pipeline.name

    def view(self) -> PipelineView:
        """Return what the board and the log know."""
        now_ms, snapshot = self._clock.now_ms(), self._board.snapshot()
        stall = stalled(snapshot, now_ms, self._interval_ms)
        reason = why(snapshot, now_ms, running=True, stall=stall)
        status = Status(snapshot, running=True, now_ms=now_ms, tells=True, stall=stall)
        heard, self._told = self._happenings.after(self._told)
        self._newest.extendleft(heard)
        shown = replace(status, why=reason)
        return PipelineView(self.name, now_ms, self._spec, shown, tuple(self._newest))
