"""Rounds of a crash test: start, feed, kill at a moment of the seed's choosing, recover, compare."""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
import signal
import statistics
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.crash.stage import INLINE, Stage
from tests.processes.process import KILLED, Driver
from tests.servers.warm import WarmProcess
from tests.story.oracle import summary

from penstock.core.crash_points import OF_PUBLISHING, CrashPoint

START_SECONDS = 120.0
CATCH_UP_SECONDS = 240.0
POINT_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: which process, and how many rows were PENDING in the store when it hit."""

    victim: str
    pending: int


@dataclass(slots=True)
class Tally:
    """What all rounds of a session came to."""

    rounds: int = 0
    kills: list[Kill] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    recoveries: dict[str, list[float]] = field(default_factory=dict)

    def line(self) -> str:
        """Return it in one line; recovery is from the new start to its first commit."""
        by_kind = Counter(kill.victim for kill in self.kills)
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(by_kind.items()))
        pending = sum(kill.pending > 0 for kill in self.kills)
        recovery = "; ".join(
            f"{engine} p50 {statistics.median(times):.1f} s, max {max(times):.1f} s"
            for engine, times in sorted(self.recoveries.items())
        )
        return (
            f"rounds {self.rounds} | kills {len(self.kills)} ({kinds}) | with pending {pending} "
            f"({100 * self.pending_share:.0f} %) | seeds {', '.join(map(str, self.seeds))} | "
            f"recovery {recovery}"
        )

    @property
    def pending_share(self) -> float:
        return sum(kill.pending > 0 for kill in self.kills) / max(len(self.kills), 1)


@dataclass(slots=True)
class Series:
    """Rounds on the same tables, compared after each."""

    stage: Stage
    seed: int
    tally: Tally
    chance: random.Random = field(init=False)
    own: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.tally.seeds.append(self.seed)

    def first_creation(self) -> None:
        """Create the tables from good records alone, killed as they are created.

        What a table takes is decided by the records it is created from; so bad ones come later.
        """
        point = self.chance.choice([CrashPoint.CREATE_BEFORE, CrashPoint.CREATE_AFTER])
        plan = {"PENSTOCK_FAULTS": f"{point}:{self.chance.randrange(1, 5)}", **INLINE}
        with Driver(self.stage.spec, environment=plan, start=WarmProcess) as driver:
            assert KILLED == driver.end().code, driver.log
            self._note("point")
            driver.wait_until_nothing_is_left()
        self._recover(INLINE)

    def round(self, victim: str) -> None:
        """Kill once, sometimes once more while it recovers, then catch up and compare."""
        with self.stage.fed(self.chance.randrange(2**32)):
            self._killed_run(victim)
            if victim == "driver" and self.chance.random() < 0.2:
                self._killed_run("driver", starting=True)
        self._recover({} if victim == "java" or self.chance.random() < 0.3 else INLINE)
        differences = self.stage.differences()
        assert [] == differences, f"seed {self.seed}: {summary(differences)}"
        self.tally.rounds += 1
        self.own.rounds += 1

    def _killed_run(self, victim: str, *, starting: bool = False) -> None:
        point = self._point() if victim == "point" else ""
        environment = {"PENSTOCK_FAULTS": point} if point else {}
        with Driver(self.stage.spec, environment=environment) as driver:
            if starting:
                time.sleep(self.chance.uniform(0.2, 3.0))
                self._strike("driver", driver)
            elif point:
                self._die_at_point(driver)
            else:
                self._reach_a_moment(driver)
                self._strike(victim, driver)
            driver.wait_until_nothing_is_left()

    def _point(self) -> str:
        points = [
            each for each in CrashPoint if each not in {CrashPoint.CLAIM_BEFORE, *OF_PUBLISHING}
        ]
        return f"{self.chance.choice(points)}:{self.chance.randrange(1, 4)}"

    def _die_at_point(self, driver: Driver) -> None:
        """Wait until it dies by its plan; some points are never passed, then it is killed."""
        deadline = time.monotonic() + POINT_SECONDS
        while driver.running and time.monotonic() < deadline:
            time.sleep(0.01)
        if driver.running:
            self._strike("driver", driver)
        else:
            assert driver.end().code in (KILLED, 75), driver.log
            self._note("point")

    def _reach_a_moment(self, driver: Driver) -> None:
        """Let it run for a while; then wait for pending rows, or for nothing in particular."""
        commits = self.chance.randrange(1, 8)
        driver.wait_for("TableCommitted", commits, seconds_max=START_SECONDS)
        wants_pending = self.chance.random() < 0.6
        time.sleep(self.chance.uniform(0.0, 0.4))
        if wants_pending:
            driver.wait_until(lambda: self.stage.pending_now() > 0, "rows are pending")
            time.sleep(self.chance.choice([0.0, 0.0, self.chance.uniform(0.0, 0.02)]))

    def _strike(self, victim: str, driver: Driver) -> None:
        match victim:
            case "driver":
                driver.kill()
                self._note(victim)
            case "java":
                java = driver.java()
                assert java is not None, driver.log
                java.kill()
                self._note(victim)
                ended = driver.end()
                assert 75 == ended.code, driver.log
                assert "P601" in ended.out, ended.out
            case "worker":
                self._strike_worker(driver)
                driver.send(signal.SIGTERM)
                assert 0 == driver.end().code, driver.log
                assert 0 == self.stage.pending(), "a clean stop leaves nothing pending"
            case "worker, then driver":
                self._strike_worker(driver)
                self._strike("driver", driver)
            case _:
                raise AssertionError(victim)

    def _strike_worker(self, driver: Driver) -> None:
        """Kill one Python worker: Spark tries its task again, the run goes on."""
        driver.wait_until(lambda: bool(driver.workers()), "a worker runs")
        workers = driver.workers()
        self.chance.choice(sorted(workers, key=lambda each: each.pid)).kill()
        self._note("worker")
        driver.wait_for("TableCommitted", driver.count("TableCommitted") + 4)

    def _note(self, victim: str) -> None:
        kill = Kill(victim, self.stage.pending())
        self.tally.kills.append(kill)
        self.own.kills.append(kill)

    def _recover(self, environment: Mapping[str, str]) -> None:
        """Start it again and let it catch up; note when the first commit came."""
        with Driver(self.stage.spec, "--until-caught-up", environment=environment) as driver:
            ended = driver.end(CATCH_UP_SECONDS)
            assert 0 == ended.code, ended.err[-3000:] + ended.out
            commits = [each for each in driver.reported if each.event == "TableCommitted"]
            if commits:
                engine = environment.get("STAGE_MASTER", self.stage.master)
                seconds = commits[0].at - driver.began
                self.tally.recoveries.setdefault(engine, []).append(seconds)
        assert 0 == self.stage.pending()
