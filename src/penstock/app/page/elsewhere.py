"""A pipeline that another process runs, watched from here: `penstock ui`.

Invariants:
- whoever looks waits for nobody: threads read, one what runs say (each second), one tables, brokers
  and publications (each ten seconds, and a tenth of the time at most), while somebody looks;
- it only reads, over connections to the store that it keeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from penstock.app.assembly import assembly
from penstock.app.inspect.publications import PublicationView, view_publications
from penstock.app.inspect.status import Status, heard, status
from penstock.app.members import MemberList, MemberStatus
from penstock.app.page.views import PipelineView
from penstock.app.standby import open_leadership
from penstock.core.errors import BugError, PenstockError
from penstock.ports.reports import Happening
from penstock.ports.runtime import Clock
from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications

HEAR_SECONDS = 1.0
READ_SECONDS = 10.0
READ_REST_TIMES = 9
UNSEEN_SECONDS = 30.0
"""So long after the last look nobody looks any more."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found last, and which part of it could not be found again."""

    read: Status | None = None
    status: Status | None = None
    happenings: tuple[Happening, ...] = ()
    members: tuple[MemberStatus, ...] | None = None
    publications: tuple[PublicationView, ...] | None = None
    unread: PenstockError | None = None
    unheard: PenstockError | None = None


def _with_heard(
    known: _Known,
    *,
    found: Status,
    happened: tuple[Happening, ...],
    members: tuple[MemberStatus, ...] | None,
) -> _Known:
    return replace(known, status=found, happenings=happened, members=members, unheard=None)


def _told(error: Exception) -> PenstockError:
    """Return an error as the page may say it; of one that is not ours only the kind."""
    if isinstance(error, PenstockError):
        return error
    return BugError(
        f"an unexpected {type(error).__name__}",
        code="P700",
        hint="this is a bug of Penstock: please report it with what `penstock status` says",
    )


class ElsewherePipeline:
    """Watch a pipeline, or the publications of a spec, inside the `with` block."""

    def __init__(
        self,
        name: str,
        spec: str,
        clock: Clock,
        *,
        pipeline: Pipeline | None,
        publications: Publications | None,
    ) -> None:
        self.name = name
        self._spec, self._clock = spec, clock
        self._pipeline, self._publications = pipeline, publications
        self._guard = threading.Lock()
        self._known = _Known()
        self._seen_at = clock.monotonic()
        self._awake, self._stop = threading.Condition(), threading.Event()

    def view(self) -> PipelineView:
        """Return what is known now."""
        with self._awake:
            self._seen_at = self._clock.monotonic()
            self._awake.notify_all()
        known = self._known
        return PipelineView(
            self.name,
            self._clock.now_ms(),
            self._spec,
            known.status,
            known.happenings,
            known.members,
            known.publications,
            tuple(each for each in (known.unheard, known.unread) if each is not None),
        )

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Read in threads inside the block."""
        acts = [("read", self._read), *([("hear", self._hear)] if self._pipeline else [])]
        threads = [
            threading.Thread(target=self._again, args=(act,), name=f"page-{name}", daemon=True)
            for name, act in acts
        ]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            self._stop.set()
            with self._awake:
                self._awake.notify_all()

    def _again(self, act: Callable[[], float]) -> None:
        """Act while somebody looks, with a rest that the act itself names."""
        while not self._stop.is_set():
            rest_seconds = act()
            with self._awake:
                self._awake.wait_for(self._stop.is_set, rest_seconds)
                self._awake.wait_for(lambda: self._stop.is_set() or self._is_seen())

    def _is_seen(self) -> bool:
        return self._clock.monotonic() - self._seen_at < UNSEEN_SECONDS

    def _learn(self, change: Callable[[_Known], _Known]) -> None:
        with self._guard:
            self._known = change(self._known)

    def _read(self) -> float:
        """Read tables and brokers, then publications; return how long to rest."""
        begun = self._clock.monotonic()
        try:
            found = None if self._pipeline is None else status(self._pipeline, self._clock)
            views = None if self._publications is None else view_publications(self._publications)
            told = None if views is None else tuple(views)
            self._learn(
                lambda known: replace(
                    known,
                    read=found,
                    status=known.status or found,
                    publications=told,
                    unread=None,
                )
            )
        except Exception as error:  # noqa: BLE001  else the page would show what was, for ever
            unread = _told(error)
            self._learn(lambda known: replace(known, unread=unread))
        took = self._clock.monotonic() - begun
        return max(READ_SECONDS, took * READ_REST_TIMES)

    def _hear(self) -> float:
        """Ask the store what runs say; return how long to rest."""
        assert self._pipeline is not None
        try:
            with ExitStack() as stack:
                self._hear_all(stack, self._pipeline)
        except Exception as error:  # noqa: BLE001  same
            unheard = _told(error)
            self._learn(lambda known: replace(known, unheard=unheard))
        return HEAR_SECONDS

    def _hear_all(self, stack: ExitStack, pipeline: Pipeline) -> None:
        """Ask again and again over the same connections, until it fails."""
        store = stack.enter_context(closing(assembly.open_store(pipeline)))
        reports = assembly.open_reports(pipeline)
        if reports is not None:
            stack.callback(reports.close)
        leadership = open_leadership(pipeline, pipeline.name)
        roll = None
        if leadership is not None:
            leadership.close()
            roll = stack.enter_context(closing(MemberList(pipeline, pipeline.name)))
        while not self._stop.is_set():
            found = heard(pipeline, self._clock, store, reports, self._known.read)
            happened = () if reports is None else tuple(reports.happenings(pipeline.name))
            members = None if roll is None else tuple(roll.members())
            self._learn(partial(_with_heard, found=found, happened=happened, members=members))
            with self._awake:
                self._awake.wait_for(self._stop.is_set, HEAR_SECONDS)
                self._awake.wait_for(lambda: self._stop.is_set() or self._is_seen())
