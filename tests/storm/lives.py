"""Pipelines that are kept alive through a storm, each by a thread of its own.

Invariants:
- of each pipeline one process is alive at a time, but for a stopped one and its successor; of one in
  shards there are several equal ones, each kept by itself, and who has no shard stands by;
- every life is written down with its beginning, its end and what ended it; a life that ends as
  nobody expects is a finding;
- recovery is the time from what struck a pipeline, or a shard, to its next commit, in whichever
  life of whichever process.
"""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from deltalake.exceptions import DeltaError
from tests.processes.process import KILLED, Driver
from tests.servers.warm import WarmProcess
from tests.storm.plan import Fault, Gust, overdue
from tests.storm.stage import KEYED, Pipe, Stage, path_of

FENCED, BUG, UNAVAILABLE = 3, 70, 75
END_SECONDS_MAX = 240.0
START_SECONDS_MAX = 400.0
SUCCESSOR_SECONDS_MAX = 15.0
PATIENT_SECONDS_MAX = 300.0
CATCH_UP_SECONDS_MAX = 600.0
POLL_SECONDS = 0.05
AGAIN_SECONDS = 0.5
STACKS_SECONDS = 1.0
TRIES_TO_SETTLE = 4
BY_ITSELF, SETTLING, END = "by itself", "catching up", "the end of the storm"
BEFORE_A_POINT = "SIGKILL before a crash point"
SIGKILLS = frozenset({Fault.KILL, Fault.STORE, Fault.STAGED, BEFORE_A_POINT})
ABORTED = re.compile(r"rdkafka_\w+\.c:\d+: .*Assertion")
"""What librdkafka 2.16 says when it ends its process over an answer of a broker that restarts.

Seen with seed 1; a death like any other for a pipeline, and counted as one.
"""
ALIVE = "P510"
"""What is said of a pipeline that another process runs."""
ORPHANED = 255
"""The code of a process that was killed, and whose end its fork server was not told."""
UNEXPECTED = {"P486", "P487"}
"""What no weather makes: codes of tables that an error of ours has parked."""
EXPECTED: Mapping[str, frozenset[int]] = {
    BY_ITSELF: frozenset(),
    Fault.POINT: frozenset(),
    SETTLING: frozenset({0}),
    END: frozenset({0}),
    Fault.TERM: frozenset({0}),
    Fault.JAVA: frozenset(),
    Fault.STOP: frozenset({FENCED}),
}
"""The codes that a life may end with, besides 75; SIGKILL's where nothing is said."""


@dataclass(frozen=True, slots=True)
class Life:
    """One process of a pipeline: from when to when (epoch seconds), and how it ended."""

    pipe: str
    began: float
    ended: float
    code: int
    blow: str


@dataclass(slots=True)
class Log:
    """What happened to one pipeline, to be reported. Times are monotonic seconds."""

    faults: Counter[str] = field(default_factory=Counter)
    lives: list[Life] = field(default_factory=list)
    commits: dict[str, list[float]] = field(default_factory=dict)
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    late: int = 0


@dataclass(slots=True)
class Run:
    """A process of a pipeline that lives, and how many of its events were heard."""

    driver: Driver
    plan: str
    started: float
    heard: int = 0


@dataclass(slots=True)
class Keeper:
    """Keeps one process of a pipeline alive, and lets its gusts strike it. Use it from one thread.

    `shocks` are what struck the pipeline or its shards, and when, until their next commits; all
    processes of a pipeline have the same.
    """

    stage: Stage
    pipe: Pipe
    name: str
    shocks: dict[str, tuple[str, float]]
    log: Log = field(default_factory=Log)
    _run: Run | None = None

    def begin(self) -> None:
        """Start, and wait until there is a commit of each outcome."""
        self._start()
        self.run.driver.wait_until(
            self._has_begun,
            f"all of {self.pipe.name} has begun",
            seconds_max=START_SECONDS_MAX,
        )

    def _has_begun(self) -> bool:
        self._listen(self.run)
        return self._stands_by() or set(self.pipe.outcomes) <= set(self.log.commits)

    def _stands_by(self) -> bool:
        """Return whether a process of a crew has not had its turn, and could take it."""
        seen = list(self.run.driver.reported)
        ready = any(e.event == "StandbyChanged" and not e.data["trouble"] for e in seen)
        return ready and not self._lands()

    def _lands(self) -> list[str]:
        """Name the pipeline, or of a crew the shard that this life took last; none before."""
        if not self.pipe.shards:
            return [self.pipe.name]
        gained = [e for e in list(self.run.driver.reported) if e.event == "LeadershipGained"]
        return [str(gained[-1].data["pipeline"])] if gained else []

    def shocked(self, name: str) -> None:
        """Time the recovery of what it lands, unless that recovers from something already."""
        for each in self._lands():
            self.shocks.setdefault(each, (name, time.monotonic()))

    def through(self, gusts: Sequence[Gust], began: float, seconds: float) -> None:
        """Live through a storm that began at a monotonic time; `begin` was called before."""
        try:
            for gust in gusts:
                self._live_until(began + gust.at)
                is_late = overdue(gust, began)
                if gust.patient and not is_late:
                    self._wait_for_a_commit(began + seconds)
                if is_late or time.monotonic() >= began + seconds:
                    self.log.late += 1
                else:
                    self._take(gust)
            self._live_until(began + seconds)
            self._struck(END, signal.SIGTERM)
        finally:
            with self.run.driver:
                self.run.driver.kill()

    def settle(self) -> None:
        """Let a last run catch up, of each shard; a table may be parked for what was struck before."""
        for shard in range(self.pipe.shards):
            self._settle("--shard", str(shard))
        if not self.pipe.shards:
            self._settle()

    def _settle(self, *words: str) -> None:
        for _ in range(TRIES_TO_SETTLE):
            self._start("--until-caught-up", *words)
            if self._bury(self.run, SETTLING, CATCH_UP_SECONDS_MAX) == 0:
                return
        self.log.unexpected.append(f"{self.pipe.name} does not come to rest")

    @property
    def run(self) -> Run:
        assert self._run is not None, "it was started"
        return self._run

    def _start(self, *words: str, plan: str = "") -> None:
        environment = {"PENSTOCK_FAULTS": plan} if plan else {}
        start = None if self.pipe.on_spark else WarmProcess
        spec, started = self.stage.spec(self.pipe), time.time()
        verb = ("publish", "--spec") if self.pipe.into else ("run",)
        words = words or (("--shard", "any") if self.pipe.shards else ())
        driver = Driver(spec, *words, environment=environment, start=start, verb=verb)
        self._run = Run(driver, plan, started)

    def _live_until(self, moment: float) -> None:
        """Wait, and start a run again that has ended meanwhile."""
        while time.monotonic() < moment:
            self._listen(self.run)
            if not self.run.driver.running:
                self._start_again()
            time.sleep(POLL_SECONDS)

    def _wait_for_a_commit(self, end: float) -> None:
        deadline = min(end, time.monotonic() + PATIENT_SECONDS_MAX)
        event, _ = self.pipe.commit
        while not self.run.driver.count(event) and time.monotonic() < deadline:
            if self._stands_by():
                return
            self._live_until(time.monotonic() + POLL_SECONDS)

    def _start_again(self, *words: str, blow: str = BY_ITSELF) -> None:
        """Bury a run that ended by itself: at its point, or because the world was away."""
        blow = Fault.POINT if self.run.plan else blow
        self.shocked(blow)
        if self._bury(self.run, blow) == UNAVAILABLE:
            time.sleep(AGAIN_SECONDS)
        self._start(*words)

    def _take(self, gust: Gust) -> None:
        """Let a gust strike, and see to it that a run is alive afterwards."""
        if not self.run.driver.running:
            self._start_again()
        match gust.fault:
            case Fault.KILL:
                self._struck(gust.fault)
                self._start()
            case Fault.POINT:
                self._struck(BEFORE_A_POINT)
                self._start(plan=gust.detail)
            case Fault.TERM:
                self._struck(gust.fault, signal.SIGTERM)
                self._start()
            case Fault.STOP:
                self._stop_and_succeed()
            case Fault.PAUSE:
                self._pause()
            case Fault.CUT:
                self._strikes(gust.fault)
                self.stage.cut_from_the_database()
            case Fault.STORE:
                self._struck(gust.fault)
                for path in self.stage.store(self.pipe).parent.glob(f"{self.pipe.name}.db*"):
                    path.unlink()
                self._start()
            case Fault.STAGED:
                self._struck(gust.fault)
                self._lose_staged_files()
                self._start()
            case Fault.JAVA | Fault.WORKER:
                self._strike_below(gust.fault)
            case _:
                raise AssertionError(gust)

    def _strikes(self, name: str) -> None:
        self.log.faults[name] += name != END
        self._listen(self.run)
        for each in self._lands():
            self.shocks[each] = (name, time.monotonic())

    def _struck(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal and wait for the end."""
        self._strikes(name)
        if number is signal.SIGKILL:
            self.run.driver.kill()
        else:
            self.run.driver.send(number)
        self._bury(self.run, name)

    def _stop_and_succeed(self) -> None:
        """SIGSTOP, a successor that takes over and works, SIGCONT: the zombie has to go.

        A publication that had not begun as it was stopped waits for its successor instead, and
        begins where that one waits for the brokers.
        """
        self._strikes(Fault.STOP)
        zombie = self.run
        with zombie.driver:
            zombie.driver.send(signal.SIGSTOP)
            self._start("--takeover")
            with suppress(TimeoutError):
                wait = START_SECONDS_MAX if self.pipe.on_spark else SUCCESSOR_SECONDS_MAX
                self.run.driver.wait_for(self.pipe.commit[0], 2, seconds_max=wait)
            zombie.driver.send(signal.SIGCONT)
            deadline, told = time.monotonic() + END_SECONDS_MAX, False
            while zombie.driver.running and time.monotonic() < deadline:
                if not self.run.driver.running:  # the world was away as it came
                    self._start_again("--takeover", blow=self._fenced_by(zombie))
                if not told and self._waits(zombie):
                    told = True
                    zombie.driver.send(signal.SIGTERM)
                time.sleep(POLL_SECONDS)
            self._bury(zombie, Fault.TERM if told else Fault.STOP, seconds_max=1.0)

    def _pause(self) -> None:
        """SIGSTOP until another process has landed what this one lands, SIGCONT: it stands by then."""
        self._strikes(Fault.PAUSE)
        self.run.driver.send(signal.SIGSTOP)
        deadline, lands = time.monotonic() + SUCCESSOR_SECONDS_MAX, self._lands()
        while any(each in self.shocks for each in lands) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self.run.driver.send(signal.SIGCONT)

    def _fenced_by(self, zombie: Run) -> str:
        """Return what ends a successor: a publication that waited for it may begin, and fence it."""
        return Fault.STOP if self.pipe.into and _was_told_to_wait(zombie) else BY_ITSELF

    def _waits(self, run: Run) -> bool:
        """Return whether a publication that has not begun waits for another run to end."""
        return _was_told_to_wait(run) and not run.driver.count("PublicationStarted")

    def _strike_below(self, fault: Fault) -> None:
        """Kill Java or a Python worker of Spark, when there is one."""
        java, workers = self.run.driver.java(), self.run.driver.workers()
        if fault is Fault.WORKER and workers:
            self._strikes(fault)
            with suppress(psutil.NoSuchProcess):
                workers[0].kill()
        elif fault is Fault.JAVA and java is not None:
            self._strikes(fault)
            java.kill()
            self._bury(self.run, fault)
            self._start()

    def _lose_staged_files(self) -> None:
        """Remove a file of each commit that was prepared, and all that Delta does not know.

        A request of the dead must not come after: no table outlives a file that goes as it lands.
        """
        self.stage.liar.cut()
        known = (*self.pipe.tables, self.pipe.quarantine)
        live = {path for table in known for path in self._live(table)}
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(self.stage.store(self.pipe))) as store,
        ):
            asked = store.execute("SELECT body FROM commits WHERE state = 'PENDING'").fetchall()
            for file in [file for (body,) in asked for file in json.loads(body)["files"][:1]]:
                path = path_of(str(file["path"]))
                if path not in live and path.exists():
                    path.unlink()
                    self.log.faults["staged file removed"] += 1
        for table in self.pipe.tables:
            is_kept = table in KEYED  # deltalake does not know what deletes rows
            delta = self.stage.delta(table) if table.startswith("delta.") else None
            if delta is not None and not is_kept:
                with suppress(DeltaError):
                    delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def _live(self, table: str) -> list[Path]:
        if table.startswith("delta."):
            delta = self.stage.delta(table)
            return [] if delta is None else [Path(uri) for uri in delta.file_uris()]
        lake = self.stage.iceberg(table)
        tasks = [] if lake is None else lake.scan().plan_files()
        return [path_of(each.file.file_path) for each in tasks]

    def _bury(self, run: Run, blow: str, seconds_max: float = END_SECONDS_MAX) -> int:
        """Wait for the end of a run and write it down; -1 when it does not come."""
        with run.driver:
            try:
                ended = run.driver.end(seconds_max)
            except TimeoutError as error:
                stacks = _stacks(run)
                self.log.unexpected.append(
                    f"{self.pipe.name} did not end after {blow}: {error}{stacks}"
                )
                return -1
        self._listen(run)
        code, output = ended.code, ended.err + ended.out
        self.log.lives.append(Life(self.pipe.name, run.started, time.time(), code, blow))
        expected = {UNAVAILABLE, *EXPECTED.get(blow, {KILLED})}
        if blow in SIGKILLS:
            expected.add(ORPHANED)
        if not run.heard:
            expected.add(-signal.SIGTERM)  # it was about to start
        if code == -signal.SIGABRT and ABORTED.search(output):
            expected.add(code)
            self.log.faults["librdkafka aborts"] += 1
        raised = run.plan and "struck at" in output
        if run.plan:
            expected |= {KILLED} | ({BUG} if raised else set())
        if raised or (run.plan and code == KILLED and blow not in SIGKILLS):
            self.log.faults[f"{Fault.POINT}, {run.plan.rpartition(':')[2]}"] += 1
        if code not in expected:
            self.log.unexpected.append(
                f"{self.pipe.name} ended with {code} after {blow}: {output[-1500:]}"
            )
        return code

    def _listen(self, run: Run) -> None:
        """Write down what a run has reported since."""
        new, (event, of) = run.driver.reported[run.heard :], self.pipe.commit
        run.heard += len(new)
        for each in new:
            self.log.events[each.event] += 1
            if each.event == "TableParked" and each.data["code"] in UNEXPECTED:
                self.log.unexpected.append(f"{self.pipe.name}: {each.data['reason']}")
            if each.event == event:
                self.log.commits.setdefault(str(each.data[of]), []).append(each.at)
                lands = str(each.data["chain"]) if self.pipe.shards else self.pipe.name
                name, at = self.shocks.get(lands, ("", each.at))
                if each.at > at:
                    self.log.recoveries.setdefault(name, []).append(each.at - at)
                    self.shocks.pop(lands, None)


def kept(stage: Stage, pipe: Pipe) -> list[Keeper]:
    """Return who keeps the processes of a pipeline alive."""
    shocks: dict[str, tuple[str, float]] = {}
    return [Keeper(stage, pipe, name, shocks) for name in pipe.members]


def _was_told_to_wait(run: Run) -> bool:
    """Return whether a run has found another one alive."""
    return any(each.data.get("code") == ALIVE for each in list(run.driver.reported))


def _stacks(run: Run) -> str:
    """Dump the threads of a run that does not end."""
    before = len(run.driver.lines)
    run.driver.send(signal.SIGQUIT)
    time.sleep(STACKS_SECONDS)
    return "".join(run.driver.lines[before:])
