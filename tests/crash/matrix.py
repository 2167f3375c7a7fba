"""The matrix of crash points: each point of `CrashPoint`, struck in each way, on each kind of table.

Ways are a SIGKILL, an error that nobody expects, a SIGSTOP with a successor, and a lost reply where
somebody outside is asked (`replies.py`).

Invariants:
- every point has a scene that makes a run pass it; a point that the code has and this does not name
  fails `test_every_crash_point_has_its_scene`;
- a round counts only when the blow is proven to have hit: by the exit code, by a stopped process,
  by the error's own words, or by the count of answers that were lost.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

import psutil
from tests.crash.field import Field
from tests.crash.kept import Kept
from tests.crash.replies import ACTS, LANDED_OR_LATER, NOT_OF_REST, Line
from tests.crash.values import NOTHING, Compared
from tests.processes.process import KILLED, Driver, Finished
from tests.processes.sigstop import let_locks_go, sleeps
from tests.servers.warm import WarmProcess
from tests.story.oracle import summary

from penstock.core.crash_points import CrashPoint

OUR_BUG, FENCED = 70, 3


class Blow(StrEnum):
    """What happens at a point: to the process, or to the answer that it waits for."""

    KILL = "kill"
    STOP = "stop"
    RAISE = "raise"
    LOSE = "lose"


class Scene(StrEnum):
    """What a run meets, so that it passes a point."""

    CREATION = "no table exists"
    LAND = "good and bad records wait"
    WIDEN = "records bring a new column"
    FENCE = "staged files are gone"
    ANCHOR = "nothing of what waits is landed"
    BEAT = "the run goes on for longer than a heartbeat"
    CHANGES = "records put and delete rows of keyed tables"
    REWRITES = "the same, and files that lose rows are written again"


SCENES: Mapping[CrashPoint, Scene] = {
    CrashPoint.CLAIM_BEFORE: Scene.LAND,
    CrashPoint.CLAIM_AFTER: Scene.LAND,
    CrashPoint.EPOCH_PLANNED: Scene.LAND,
    CrashPoint.FILE_OPENED: Scene.LAND,
    CrashPoint.FILE_WRITTEN: Scene.LAND,
    CrashPoint.FILE_CLOSED: Scene.LAND,
    CrashPoint.RESULT_RETURNED: Scene.LAND,
    CrashPoint.PREPARE_BEFORE: Scene.LAND,
    CrashPoint.PREPARE_AFTER: Scene.LAND,
    CrashPoint.CREATE_BEFORE: Scene.CREATION,
    CrashPoint.CREATE_AFTER: Scene.CREATION,
    CrashPoint.EVOLVE_BEFORE: Scene.WIDEN,
    CrashPoint.EVOLVE_AFTER: Scene.WIDEN,
    CrashPoint.RESOLVE_BEFORE: Scene.CHANGES,
    CrashPoint.RESOLVE_AFTER: Scene.CHANGES,
    CrashPoint.FILES_REWRITTEN: Scene.REWRITES,
    CrashPoint.ROW_DELETES_WRITTEN: Scene.CHANGES,
    CrashPoint.MANIFEST_WRITTEN: Scene.LAND,
    CrashPoint.COMMIT_BEFORE: Scene.LAND,
    CrashPoint.COMMIT_AFTER: Scene.LAND,
    CrashPoint.QUARANTINE_BEFORE: Scene.LAND,
    CrashPoint.QUARANTINE_AFTER: Scene.LAND,
    CrashPoint.ANCHOR_BEFORE: Scene.ANCHOR,
    CrashPoint.ANCHOR_AFTER: Scene.ANCHOR,
    CrashPoint.FENCE_BEFORE: Scene.FENCE,
    CrashPoint.FENCE_AFTER: Scene.FENCE,
    CrashPoint.READ_BACK: Scene.LAND,
    CrashPoint.SETTLE_BEFORE: Scene.LAND,
    CrashPoint.SETTLE_AFTER: Scene.LAND,
    CrashPoint.HOUSEKEEP_BEFORE: Scene.LAND,
    CrashPoint.HOUSEKEEP_AFTER: Scene.LAND,
    CrashPoint.HEARTBEAT_BEFORE: Scene.BEAT,
    CrashPoint.HEARTBEAT_AFTER: Scene.BEAT,
    CrashPoint.STOPPING: Scene.LAND,
    CrashPoint.RELEASE_BEFORE: Scene.LAND,
    CrashPoint.RELEASE_AFTER: Scene.LAND,
}
OF_ROW_DELTAS = frozenset(
    {
        *(CrashPoint.FILE_CLOSED, CrashPoint.RESULT_RETURNED),
        *(CrashPoint.PREPARE_BEFORE, CrashPoint.PREPARE_AFTER),
        *(CrashPoint.RESOLVE_BEFORE, CrashPoint.RESOLVE_AFTER),
        *(CrashPoint.FILES_REWRITTEN, CrashPoint.ROW_DELETES_WRITTEN, CrashPoint.MANIFEST_WRITTEN),
        *(CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER, CrashPoint.READ_BACK),
        *(CrashPoint.SETTLE_BEFORE, CrashPoint.SETTLE_AFTER),
    }
)
"""Points of a commit that changes rows: they are struck on keyed tables, too."""
ONCE_A_RUN = frozenset(
    {
        *(
            CrashPoint.CLAIM_BEFORE,
            CrashPoint.CLAIM_AFTER,
            CrashPoint.EPOCH_PLANNED,
            CrashPoint.RESULT_RETURNED,
        ),
        *(CrashPoint.PREPARE_BEFORE, CrashPoint.PREPARE_AFTER, CrashPoint.STOPPING),
        *(CrashPoint.HEARTBEAT_BEFORE, CrashPoint.HEARTBEAT_AFTER),
        *(CrashPoint.RELEASE_BEFORE, CrashPoint.RELEASE_AFTER),
    }
)
NOT_OF_DELTA = frozenset({CrashPoint.MANIFEST_WRITTEN})
TRIES = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """One round: a point, a blow, a kind of table, and how many of them; `keyed` ones take changes."""

    point: CrashPoint
    blow: Blow
    connector: str
    tables: int
    keyed: bool = False

    def __str__(self) -> str:
        kind = f"keyed_{self.connector}" if self.keyed else self.connector
        return f"{self.point}-{self.blow}-{kind}-{self.tables}"

    @property
    def scene(self) -> Scene:
        return Scene.CHANGES if self.keyed and not self.rewrites else SCENES[self.point]

    @property
    def rewrites(self) -> bool:
        """Return whether its tables have files written again where rows go."""
        return SCENES[self.point] is Scene.REWRITES

    @property
    def plan(self) -> str:
        """Return when to strike: of several tables the last but one, so that some are done."""
        passing = 1 if self.point in ONCE_A_RUN else (self.tables + 1) // 2
        if self.scene is Scene.CREATION:
            passing = self.tables + 1  # the quarantine is created first
        held = Blow.STOP if self.blow is Blow.LOSE else self.blow
        return f"{self.point}:{passing}:{held}"


CELLS = tuple(
    Cell(point, blow, connector, tables, keyed)
    for connector in ("iceberg", "delta")
    for tables in (1, 3)
    for keyed in (False, True)
    for point in SCENES
    for blow in Blow
    if (point in OF_ROW_DELTAS if keyed else SCENES[point] not in {Scene.CHANGES, Scene.REWRITES})
    and (connector == "iceberg" or point not in NOT_OF_DELTA)
    and (blow is not Blow.LOSE or point in ACTS)
    and (blow is not Blow.LOSE or connector == "delta" or point not in NOT_OF_REST)
)


@dataclass(slots=True)
class Histogram:
    """How often each point was hit, in which way."""

    hits: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count(self, cell: Cell) -> None:
        """Count a blow that hit."""
        self.hits[cell.point, cell.blow] += 1

    def lines(self) -> list[str]:
        """Draw it: a line a point, a column a blow."""
        blows = sorted({blow for _, blow in self.hits})
        head = f"{'point':<20}" + "".join(f"{blow:>12}" for blow in blows)
        points = sorted({point for point, _ in self.hits})
        return [head] + [
            f"{point:<20}" + "".join(f"{self.hits[point, blow]:>12}" for blow in blows)
            for point in points
        ]


_Kind = tuple[str, int, bool, bool, str]


@dataclass(slots=True)
class Fields:
    """The fields of a session: one for each kind, number of tables and line, one for each creation.

    `line` makes a field whose line loses answers at a point; `kept` receives each cell that ended as
    it must.
    """

    make: Callable[[Cell], Field]
    line: Callable[[Cell], tuple[Field, Line]]
    histogram: Histogram
    kept: Kept | None = None
    _open: dict[_Kind, tuple[Field, Line | None]] = field(default_factory=dict)
    _all: list[Field] = field(default_factory=list)

    def compared(self) -> Compared:
        """Compare what the metadata of all tables says of their files with what these hold."""
        return sum((each.compared() for each in self._all), NOTHING)

    def play(self, cell: Cell) -> None:
        """Strike once, recover, compare every row with Kafka."""
        began = time.monotonic()
        for _ in range(TRIES):
            ground, line = self._ground(cell)
            _set(ground, cell.scene)
            if _blown(ground, line, cell):
                break
        else:
            raise AssertionError(f"it ended {TRIES} times while it let its locks go")
        self.histogram.count(cell)
        catch_up(ground)
        if self.kept is not None:
            self.kept.add(cell, time.monotonic() - began)

    def _ground(self, cell: Cell) -> tuple[Field, Line | None]:
        if cell.scene is Scene.CREATION:
            return self._made(cell)
        asked = ACTS[cell.point] if cell.blow is Blow.LOSE else "nobody"
        key = (cell.connector, cell.tables, cell.keyed, cell.rewrites, asked)
        if key not in self._open:
            self._open[key] = self._made(cell)
            self._open[key][0].send(bad=False)
            catch_up(self._open[key][0])
        return self._open[key]

    def _made(self, cell: Cell) -> tuple[Field, Line | None]:
        made, line = self.line(cell) if cell.blow is Blow.LOSE else (self.make(cell), None)
        self._all.append(made)
        return made, line


def _blown(ground: Field, line: Line | None, cell: Cell) -> bool:
    """Blow once; false when it ended before it could be held."""
    match cell.blow:
        case Blow.STOP:
            return _stopped(ground, cell)
        case Blow.RAISE | Blow.KILL:
            _struck(ground, cell)
        case Blow.LOSE:
            assert line is not None, "its field has one"
            _unheard(ground, line, cell)
    return True


def catch_up(ground: Field) -> None:
    """Let a run of its own land what waits; then nothing differs from Kafka."""
    ended = _run(ground)
    assert 0 == ended.code, ended.out + ended.err[-3000:]
    differences = ground.differences()
    assert [] == differences, summary(differences)


def _set(ground: Field, scene: Scene) -> None:
    match scene:
        case Scene.ANCHOR:
            ground.send_nothing_to_land()
        case Scene.WIDEN:
            ground.send(wider=True)
        case Scene.CREATION:
            ground.send(bad=False)
        case Scene.LAND | Scene.BEAT | Scene.CHANGES | Scene.REWRITES:
            ground.send()
        case Scene.FENCE:
            ground.send()
            ended = _run(ground, PENSTOCK_FAULTS="prepare.after:1")
            assert KILLED == ended.code, ended.err
            ground.lose_pending_files()


def _run(ground: Field, *words: str, **environment: str) -> Finished:
    with _driver(ground, "--until-caught-up", *words, **environment) as driver:
        return driver.end()


def _driver(ground: Field, *words: str, **environment: str) -> Driver:
    whole = {**ground.environment, **environment}
    return Driver(
        ground.spec,
        *words,
        environment=whole,
        start=partial(WarmProcess, directory=ground.directory),
    )


def _words(cell: Cell) -> tuple[str, ...]:
    return () if cell.scene is Scene.BEAT else ("--until-caught-up",)


def _struck(ground: Field, cell: Cell) -> None:
    with _driver(ground, *_words(cell), PENSTOCK_FAULTS=cell.plan) as driver:
        if cell.blow is Blow.RAISE:
            driver.wait_until(lambda: _raised(driver, cell), f"struck at {cell.point}")
        if cell.blow is Blow.RAISE and cell.scene is Scene.BEAT:
            driver.send(signal.SIGTERM)  # its own thread died, the run went on
            assert 0 == driver.end().code, driver.log
        else:
            wanted = KILLED if cell.blow is Blow.KILL else OUR_BUG
            assert wanted == driver.end().code, driver.log


def _raised(driver: Driver, cell: Cell) -> bool:
    return any(f"struck at {cell.point}" in line for line in driver.lines)


def _stopped(ground: Field, cell: Cell) -> bool:
    """Stop it at the point, let a successor do its work and more, and let it go on.

    False when it came to its end while it let its locks go: then there is nobody to succeed.
    """
    with _driver(ground, *_words(cell), PENSTOCK_FAULTS=cell.plan) as zombie:
        process = psutil.Process(zombie.pid)
        zombie.wait_until(lambda: sleeps(process), f"stopped at {cell.point}")
        if not let_locks_go(process, ground.databases()):
            return False
        ground.send()
        successor = _run(ground, "--takeover")
        assert 0 == successor.code, successor.out + successor.err[-3000:]
        ground.send()
        os.kill(zombie.pid, signal.SIGCONT)
        ended = zombie.end()
        assert ended.code in _ways_to_end(cell), f"{ended.code}: {zombie.log}"
    return True


def _unheard(ground: Field, line: Line, cell: Cell) -> None:
    """Hold it at the point, lose the answer to what it does next, and let it go on."""
    lost_before = line.count()
    with _driver(ground, *_words(cell), PENSTOCK_FAULTS=cell.plan) as driver:
        process = psutil.Process(driver.pid)
        driver.wait_until(lambda: sleeps(process), f"stopped at {cell.point}")
        line.lose(cell.point)
        os.kill(driver.pid, signal.SIGCONT)
        if cell.scene is Scene.BEAT:
            driver.wait_until(lambda: line.count() > lost_before, "an answer was lost")
            driver.send(signal.SIGTERM)
        ended = driver.end()
        line.forget()
        assert ended.code in LANDED_OR_LATER, f"{ended.code}: {driver.log}"
    assert lost_before + 1 == line.count(), driver.log


def _ways_to_end(cell: Cell) -> set[int]:
    """Return the exit codes of a zombie: fenced, or at its end when its work was done by then."""
    if cell.point is CrashPoint.CLAIM_BEFORE:
        return {0}  # it claims after its successor has ended
    ended = {CrashPoint.RELEASE_BEFORE, CrashPoint.RELEASE_AFTER}
    return {0} if cell.point in ended else {0, FENCED}
