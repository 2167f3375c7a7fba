"""One life of a coordinator in a story: it runs in this thread, and what happens is kept.

Invariants:
- a life ends as a process would: caught up, with an error, or crashed; after a crash its threads
  do nothing that a crash point could see;
- acts of a story are played at named points, in the thread that passes them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from tests.story.backend import CATALOG
from tests.story.faulty_catalog import FaultyTables
from tests.story.observer import Crash, RecordingObserver

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.events import Event, PipelineStarted
from penstock.core.offsets import Positions, TopicPartition
from penstock.core.planning import Bounds, Lane
from penstock.landing.coordinator import RunResult
from penstock.landing.repair.access import ExclusiveAccess
from penstock.landing.repair.access import exclusive_access as hold_pipeline
from penstock.landing.repair.reconvert import WriteContext
from penstock.landing.repair.retry import QuarantineResolver
from penstock.landing.run import run
from penstock.landing.settings import Environment as Outside
from penstock.landing.settings import Settings, Until
from penstock.landing.task.context import TaskContext
from penstock.landing.task.message_json import job_from_json, result_to_json
from penstock.landing.task.messages import Job, PoisonKind, TaskResult
from penstock.landing.task.worker import work
from penstock.ports.log import Log
from penstock.ports.runtime import JobResult, Observer
from penstock.ports.store import Owner
from penstock.ports.writers import AS_THEY_COME, FileWriter, Placing, WriterFactory
from penstock.rows.decode.decoder import plain_readers

if TYPE_CHECKING:
    from tests.story.world import World

Kind = TypeVar("Kind", bound=Event)
Act = Callable[[], object]
SECONDS_A_LISTING = 0.5
LISTINGS_MAX = 2000
TASKS_AT_ONCE = 2
HELD_MAX = 50
HELD_SECONDS_MAX = 90.0


class StoryObserver(RecordingObserver):
    """Remember, crash as planned, and play acts at points."""

    def __init__(self, plan: str) -> None:
        super().__init__(plan)
        self.acts: dict[tuple[CrashPoint, int], Act] = {}
        self.at_start: Act = lambda: None
        self._seen: Counter[CrashPoint] = Counter()
        self._counting = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Remember an event; play the act of a pipeline that has started, under its claim."""
        super().__call__(event)
        if isinstance(event, PipelineStarted):
            self.at_start()

    def passed(self, point: CrashPoint) -> None:
        """Play the act of this passing, then go on as the plan says."""
        with self._counting:
            self._seen[point] += 1
            act = self.acts.pop((point, self._seen[point]), None)
        if act is not None:
            act()
        super().passed(point)

    def crash_now(self) -> None:
        """End the run at whatever point is passed next, by whatever thread."""
        self.crashed = True


@dataclass(slots=True)
class Life:
    """Live once. What it was like is in `ended`, `error`, `crashed`, `events` and `jobs`."""

    world: World
    number: int
    host: str
    settings: Settings
    plan: str
    listings: dict[int, Act] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)
    ended: RunResult | None = None
    changed: object = None
    error: BaseException | None = None
    jobs: list[list[str]] = field(default_factory=list)
    full_disks: dict[str, int] = field(default_factory=dict)
    poison: dict[tuple[str, int, int], PoisonKind] = field(default_factory=dict)
    room: int | None = None
    observer: StoryObserver = field(init=False)

    def __post_init__(self) -> None:
        self.observer = StoryObserver(self.plan)

    def at(self, point: CrashPoint, act: Act, *, passing: int = 1) -> Life:
        """Play an act when a point is passed for the n-th time."""
        self.observer.acts[point, passing] = act
        return self

    def at_listing(self, number: int, act: Act) -> Life:
        """Play an act when topics are listed for the n-th time."""
        self.listings[number] = act
        return self

    def prepare_only(self, epochs: int) -> Life:
        """Crash when so many epochs are prepared, before any of their commits is sent."""
        gate = threading.Event()

        def end() -> None:
            self.observer.crash_now()
            gate.set()

        for point in (CrashPoint.COMMIT_BEFORE, CrashPoint.QUARANTINE_BEFORE):
            for passing in range(1, HELD_MAX):
                self.at(point, lambda: gate.wait(HELD_SECONDS_MAX), passing=passing)
        return self.at(CrashPoint.PREPARE_AFTER, end, passing=epochs)

    def hold(self, held: CrashPoint, until: CrashPoint, *, passing: int = 1) -> Life:
        """Hold the first thread that comes to a point until another is passed; then crash."""
        gate = threading.Event()

        def end() -> None:
            self.observer.crash_now()
            gate.set()

        self.at(held, lambda: gate.wait(HELD_SECONDS_MAX))
        return self.at(until, end, passing=passing)

    def fill_disk(self, table: str, times: int = 1) -> Life:
        """Let writers of a table find no space, a number of times."""
        self.full_disks[table] = times
        return self

    def run(self, until: Until = "caught-up", *, takeover: bool = False) -> Life:
        """Live to the end, whatever it is. Raises what is neither an error of ours nor a crash."""

        def live(outside: Outside) -> None:
            self.ended = run(
                self.settings, outside, self.stop, until, takeover=takeover, former=self._former
            )

        return self._live(live, awake=takeover)

    def change(self, act: Callable[[ExclusiveAccess], object], *, awake: bool = False) -> Life:
        """Hold the pipeline and change it by hand; what that gave is in `changed`."""

        def live(outside: Outside) -> None:
            with hold_pipeline(self.settings, outside) as held:
                self.changed = act(held)

        return self._live(live, awake=awake)

    def close(
        self, act: Callable[[QuarantineResolver], object], name: str, *, awake: bool = False
    ) -> Life:
        """Retry or drop refused records of a table by hand; what that gave is in `changed`."""
        connector = self.world.ground.connector
        means = WriteContext({connector: self.world.ground.open_writer()}, plain_readers())
        return self.change(lambda held: act(QuarantineResolver(held, means, name)), awake=awake)

    def _live(self, live: Callable[[Outside], None], *, awake: bool) -> Life:
        """Open everything afresh and live; unless `awake`, when the former's heartbeat is old."""
        if not awake:
            self.world.sleep()
        catalog = FaultyTables(self.world.ground.open_catalog(self.observer), self.world.faults)
        store = self.world.ground.open_store(self.host)
        log = WatchedLog(self.world.ground.open_log(self.world.topics), self)
        outside = Outside(
            log=log,
            cluster_id=log.cluster_id(),
            catalogs={CATALOG: catalog},
            writers=lambda _: self.world.ground.open_writer(),
            store=store,
            engine=LifeEngine(self),
            observer=self.observer,
            clock=self.world.clock,
            owner=Owner(f"owner-{self.number}", f"{self.host}.test", 1),
            jitter=_Numbers(self.number).fraction,
            token=_Numbers(self.number).token,
            commit_executor=self.world.hands,
            start_heartbeat=self.world.beats,
            health=self.world.health,
        )
        try:
            live(outside)
        except (PenstockError, Crash) as error:
            self.error = error
        finally:
            for part in (log, catalog, store):
                part.close()
        return self

    @contextmanager
    def _former(self, text: str) -> Iterator[tuple[Settings, Log]]:
        share = self.settings.stop_above_share
        settings = self.world.settings(text, accept=self.settings.accept, stop_above_share=share)
        log = WatchedLog(self.world.ground.open_log(self.world.topics_of(text)), self)
        with closing(log):
            yield settings, log

    @property
    def crashed(self) -> bool:
        """Return whether it ended in the crash that was planned."""
        return isinstance(self.error, Crash)

    @property
    def points(self) -> list[CrashPoint]:
        """List the points passed."""
        return self.observer.points

    def of(self, kind: type[Kind]) -> list[Kind]:
        """List the events of one kind."""
        return self.observer.of(kind)

    @property
    def parked(self) -> dict[str, str]:
        """Return the codes of the tables that were parked in the end."""
        assert self.ended is not None, f"it ended with {self.error!r}"
        return {name: error.code for name, error in self.ended.parked.items()}

    @property
    def code(self) -> str:
        """Return the code of the error that ended it; "" when none did."""
        return self.error.code if isinstance(self.error, PenstockError) else ""

    @property
    def records_read(self) -> int:
        """Count the positions that its jobs covered."""
        return sum(
            lane.covered.count
            for jobs in self.jobs
            for text in jobs
            for lane in job_from_json(text).lanes
        )


class _Numbers:
    """What a process would draw at random, different in each life."""

    def __init__(self, life: int) -> None:
        self._life = life
        self._guard = threading.Lock()
        self._drawn = 0

    def _draw(self) -> int:
        with self._guard:
            self._drawn += 1
            return self._drawn

    def fraction(self) -> float:
        return (self._life * 7919 + self._draw() * 104_729) % 1000 / 1000

    def token(self) -> str:
        return f"{self._life:04x}{self._draw():04x}"


class WatchedLog:
    """Pass a log on; time moves a little with each listing, and acts are played."""

    def __init__(self, log: Log, life: Life) -> None:
        self._log, self._life, self._listed = log, life, 0

    def cluster_id(self) -> str:
        """Pass on."""
        return self._log.cluster_id()

    def partitions(self, *, without: Collection[str] = ()) -> Sequence[TopicPartition]:
        """Play what the story has for this listing, then pass on."""
        self._listed += 1
        assert self._listed < LISTINGS_MAX, "it goes on without an end"
        self._life.world.clock.advance(SECONDS_A_LISTING)
        act = self._life.listings.pop(self._listed, None)
        if act is not None:
            act()
        return self._log.partitions(without=without)

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Pass on."""
        return self._log.bounds(partitions)

    def positions_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Positions:
        """Pass on."""
        return self._log.positions_at(partitions, timestamp_ms)

    def close(self) -> None:
        """Pass on."""
        self._log.close()


class LifeEngine:
    """Runs the worker's own body in this thread, with the life's observer."""

    def __init__(self, life: Life) -> None:
        self._life = life
        world = life.world
        self._clock = world.ground.worker_clock(world.clock)
        self._reader = world.ground.open_reader(world.topics, self._clock)

    def run(self, jobs: Sequence[str]) -> Sequence[str]:
        """Run all jobs in order; a worker dies at poison that its job does not name, and
        when more jobs run together than the life has room for.

        Raises UnavailableError (P606) then.
        """
        self._life.jobs.append(list(jobs))
        room = self._life.room
        if room is not None and len(jobs) > room:
            raise UnavailableError("workers died", code="P606", hint="more memory")
        if self._life.poison and any(self._dies_of(job_from_json(text)) for text in jobs):
            raise UnavailableError("workers died", code="P606", hint="more memory")
        return [self._run(text) for text in jobs]

    def run_once(self, jobs: Sequence[str]) -> Sequence[JobResult]:
        """Run all jobs in order, each once."""
        return [JobResult(text, ran_once=True) for text in self.run(jobs)]

    def _dies_of(self, job: Job) -> bool:
        return any(
            _dies_in(lane, job, offset, kills)
            for lane in job.lanes
            for (topic, partition, offset), kills in self._life.poison.items()
            if (topic, partition) == (lane.at.topic, lane.at.partition)
            and lane.covered.start <= offset < lane.covered.stop
        )

    def _run(self, text: str) -> str:
        job, observer = job_from_json(text), self._life.observer
        names = {t.write_target.target: n for n, t in job.tables.items() if t.write_target}
        writers = WritersOnFullDisks(self._life, names)
        tools = TaskContext(
            self._reader, {self._life.world.ground.connector: writers}, observer, self._clock
        )
        try:
            result = work(job, tools)
        except PenstockError as error:
            result = TaskResult(number=job.number, error=error)
        observer.passed(CrashPoint.RESULT_RETURNED)
        return result_to_json(result)

    def is_ready(self, patience_seconds: float) -> bool:
        """Return True: there is nothing to start."""
        del patience_seconds
        return True

    def capacity(self) -> int:
        """Return the number of jobs a cluster of this size would run at once."""
        return TASKS_AT_ONCE

    def cancel(self) -> None:
        """Do nothing: jobs end by themselves."""

    def close(self) -> None:
        """Do nothing: nothing was started."""


def _dies_in(lane: Lane, job: Job, offset: int, kills: PoisonKind) -> bool:
    """Return whether the worker of a lane dies of a record: a survey, if its job does not name it;
    otherwise a worker that reads it, or makes a row of it, if its job does not name that.
    """
    known = job.poison.get((lane.at.topic_id, lane.at.partition, offset))
    if job.survey:
        return known is None
    if kills is PoisonKind.READ:
        return known is not PoisonKind.READ
    gates = (job.tables[name].filter_of(lane.at.topic) for name in lane.tables)
    makes_rows = any(gate.route is None or gate.share for gate in gates)
    return known is None and makes_rows


class WritersOnFullDisks:
    """Open writers; those of some tables find no space, as often as the story says."""

    def __init__(self, life: Life, names: Mapping[str, str]) -> None:
        self._life, self._names = life, names
        self._open: WriterFactory = life.world.ground.open_writer()

    def __call__(
        self,
        target: str,
        *,
        prefix: str,
        observer: Observer,
        places: bool = False,
        placing: Placing = AS_THEY_COME,
    ) -> FileWriter:
        """Open a writer. Raises UnavailableError where the disk is full."""
        name = self._names.get(target, "")
        if self._life.full_disks.get(name, 0):
            self._life.full_disks[name] -= 1
            raise UnavailableError(f"{name}: no space left", code="P480", hint="make room")
        return self._open(target, prefix=prefix, observer=observer, places=places, placing=placing)
