"""The plan of a storm: which fault comes when, to which part; all of it from one seed.

Invariants:
- the same seed, length and paces give the same plan, whatever happens while it is carried out;
- gusts of one target come one after another; those of several targets overlap as chance has it.
"""

from __future__ import annotations

import hashlib
import random  # noqa: TID251  from the seed of the storm
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.servers.kafka_proxy import OF_READERS, OF_SENDERS, FrameFault, Kind
from tests.servers.lying import Lie

from penstock.core.crash_points import OF_PUBLISHING, CrashPoint

WORLD, OTHERS = "the world", "strangers"
CALM_SECONDS, PATIENT_SHARE = 1.0, 0.7
LATE_SECONDS_MAX = 10.0


class Fault(StrEnum):
    """Name what strikes."""

    KILL = "SIGKILL"
    TERM = "SIGTERM"
    STOP = "SIGSTOP, a successor, SIGCONT"
    POINT = "crash point"
    STORE = "SIGKILL, pending store lost"
    STAGED = "SIGKILL, staged files removed"
    JAVA = "SIGKILL of Java"
    WORKER = "SIGKILL of a Python worker"
    PAUSE = "SIGSTOP, others go on, SIGCONT"
    CUT = "cut from the database"
    LIE = "catalog lies"
    AWAY = "catalog refuses for a while"
    FRAME = "Kafka frames go wrong"
    BROKER = "broker restarted"
    GROW = "partitions added"
    APPEND = "a stranger appends"
    EXPIRE = "a stranger expires snapshots"
    COMPACT = "a stranger compacts"
    DELETE = "a stranger deletes a row"
    TIDY = "Spark rewrites files and manifests"


ON_PIPELINES: Mapping[Fault, int] = {
    Fault.KILL: 6,
    Fault.POINT: 6,
    Fault.STOP: 3,
    Fault.TERM: 2,
    Fault.STORE: 2,
    Fault.STAGED: 2,
}
ON_SPARK: Mapping[Fault, int] = {
    Fault.KILL: 3,
    Fault.JAVA: 3,
    Fault.WORKER: 4,
    Fault.POINT: 1,
    Fault.STOP: 1,
    Fault.TERM: 1,
}
ON_PUBLISHERS: Mapping[Fault, int] = {
    Fault.KILL: 6,
    Fault.POINT: 6,
    Fault.STOP: 3,
    Fault.TERM: 2,
    Fault.STORE: 2,
}
ON_CREWS: Mapping[Fault, int] = {
    Fault.KILL: 6,
    Fault.POINT: 6,
    Fault.PAUSE: 4,
    Fault.TERM: 3,
    Fault.CUT: 2,
}
ON_THE_WORLD: Mapping[Fault, int] = {
    Fault.LIE: 10,
    Fault.FRAME: 5,
    Fault.AWAY: 1,
    Fault.BROKER: 1,
}
OF_WORKERS = frozenset(
    {
        CrashPoint.FILE_OPENED,
        CrashPoint.FILE_WRITTEN,
        CrashPoint.FILE_CLOSED,
        CrashPoint.RESULT_RETURNED,
    }
)
"""A worker of Spark that dies at one of these does so at every attempt, as of a poisonous record."""
BY_OTHERS: Mapping[Fault, int] = {
    Fault.APPEND: 3,
    Fault.EXPIRE: 1,
    Fault.COMPACT: 1,
    Fault.DELETE: 2,
}


@dataclass(frozen=True, slots=True)
class Gust:
    """One fault: seconds after the beginning, what it strikes, and how in particular.

    A patient one lets a run commit before it strikes, however slow the machine is.
    """

    at: float
    target: str
    fault: Fault
    detail: str = ""
    patient: bool = False

    def __str__(self) -> str:
        wait = ", once it has committed" if self.patient else ""
        return f"{self.at:9.3f} {self.target:<10} {self.fault} {self.detail}{wait}"


@dataclass(frozen=True, slots=True)
class Paces:
    """Mean seconds between the gusts of each target; what `spark` lists is no inline pipeline, what
    `publishers` lists publishes, and what `crews` lists is one process of several equal ones.

    Spark tidies up every `tidy` seconds, and partitions are added every `grow` seconds; 0 is never.
    """

    pipelines: Mapping[str, float]
    spark: frozenset[str]
    publishers: frozenset[str]
    world: float
    others: float
    crews: frozenset[str] = frozenset()
    tidy: float = 0.0
    grow: float = 0.0


def plan(seed: int, seconds: float, paces: Paces) -> tuple[Gust, ...]:
    """Draw the plan of a storm, by time."""
    found: list[Gust] = []
    for name, pace in sorted(paces.pipelines.items()):
        weights = ON_SPARK if name in paces.spark else ON_PIPELINES
        if name in paces.publishers:
            weights = ON_PUBLISHERS
        elif name in paces.crews:
            weights = ON_CREWS
        found += _drawn(random.Random(f"{seed} {name}"), seconds, pace, name, weights)
    chance = random.Random(f"{seed} {WORLD}")
    kinds = (*OF_READERS, *OF_SENDERS) if paces.publishers else OF_READERS
    found += _drawn(chance, seconds, paces.world, WORLD, ON_THE_WORLD, kinds=kinds)
    chance = random.Random(f"{seed} {OTHERS}")
    found += _drawn(chance, seconds, paces.others, OTHERS, BY_OTHERS)
    found += _regular(seconds, paces.grow, WORLD, Fault.GROW)
    found += _regular(seconds, paces.tidy, OTHERS, Fault.TIDY)
    return tuple(sorted(found, key=lambda gust: (gust.at, gust.target)))


def overdue(gust: Gust, began: float) -> bool:
    """Return whether a gust comes too late to be played: on a busy machine they would pile up."""
    return time.monotonic() > began + gust.at + LATE_SECONDS_MAX


def play(gusts: Sequence[Gust], began: float, act: Callable[[Gust], object]) -> int:
    """Play gusts in their time, those of a storm that began at a monotonic one; count the late."""
    late = 0
    for gust in gusts:
        time.sleep(max(0.0, began + gust.at - time.monotonic()))
        if overdue(gust, began):
            late += 1
        else:
            act(gust)
    return late


def digest(gusts: Sequence[Gust]) -> str:
    """Return a short hash of a plan."""
    return hashlib.sha256("\n".join(map(str, gusts)).encode()).hexdigest()[:16]


def _drawn(
    chance: random.Random,
    seconds: float,
    pace: float,
    target: str,
    weights: Mapping[Fault, int],
    *,
    kinds: Sequence[Kind] = OF_READERS,
) -> list[Gust]:
    """Draw the gusts of one target; each fault comes once before any comes as chance has it."""
    found, at = [], CALM_SECONDS
    due = list(weights)
    chance.shuffle(due)
    while True:
        at = round(at + pace * (0.3 + chance.expovariate(1 / 0.7)), 3)
        if at >= seconds:
            return found
        fault = due.pop() if due else chance.choices(list(weights), list(weights.values()))[0]
        detail = _detail(fault, chance, _points(weights), kinds)
        found.append(Gust(at, target, fault, detail, chance.random() < PATIENT_SHARE))


def _regular(seconds: float, every: float, target: str, fault: Fault) -> list[Gust]:
    count = int(seconds / every) if every else 0
    return [Gust(round((n + 0.6) * every, 3), target, fault) for n in range(count)]


def _points(weights: Mapping[Fault, int]) -> list[CrashPoint]:
    """Return the crash points that what has these weights passes."""
    if weights is ON_PUBLISHERS:
        return sorted(OF_PUBLISHING)
    spared = OF_PUBLISHING | (OF_WORKERS if weights is ON_SPARK else frozenset())
    return [each for each in CrashPoint if each not in spared]


def _detail(
    fault: Fault, chance: random.Random, points: Sequence[CrashPoint], kinds: Sequence[Kind]
) -> str:
    match fault:
        case Fault.POINT:
            blow = chance.choice(["kill", "kill", "raise"])
            return f"{chance.choice(points)}:{chance.randrange(1, 6)}:{blow}"
        case Fault.LIE:
            return f"{chance.choice(list(Lie)).name} {chance.randrange(1, 4)}"
        case Fault.AWAY:
            return f"{chance.uniform(1.0, 4.0):.2f}"
        case Fault.FRAME:
            kind = chance.choice(kinds)
            frame = chance.choice(list(FrameFault))
            return f"{kind.name} {frame.name} {chance.randrange(1, 4)}"
        case Fault.BROKER:
            return f"{chance.uniform(0.0, 2.0):.2f}"
        case _:
            return ""
