"""Random histories of a pipeline: lives, crashes, lies, other writers; at the end all is exact.

    python -m tests.simulation.histories 10000          that many, on all cores (make soak-sim)
    python -m tests.simulation.histories 1 --seed 4711  this one, shown step by step
    python -m tests.simulation.histories 1000000 --keep FILE --minutes 30    go on from FILE

- What lives is the real coordinator, worker, commit and core; log, tables, store, engine and clock
  are verified fakes. Time is virtual, and there is one thread: a seed is a history.
- A step is an act and a seed of its own, so that a failing history is made smaller by leaving steps
  out: what is printed is the least that still fails, and the line that repeats it.
- What was played is kept in blocks of seeds, each with a mark of the code that it was played on; no
  block is played twice, so that many sittings make one run. The sum counts them by code.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random  # noqa: TID251  seeded
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from tests.source_marks import mark_of
from tests.story.backend import NOWHERE_REACHED, MemoryGround, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.unexpected_errors import without_fence
from tests.story.world import QUARANTINE, World, either, tables_named

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import PenstockError

POINTS = sorted(set(CrashPoint) - NOWHERE_REACHED - {CrashPoint.MANIFEST_WRITTEN})
FAULTS = [each for each in Fault if each is not Fault.FORBID]
STEPS_MIN, STEPS_MAX = 1, 5
CHUNKS = 100
SOURCE = Path(__file__).resolve().parents[2] / "src/penstock"
ROOMS = ("core", "commit", "ownership", "landing", "ports", "rows", "connectors/memory", "testing")
"""What histories are played on; the mark of a block is that of these rooms and this file."""

pa.set_cpu_count(1)  # one thread: the histories go side by side
without_fence()


@dataclass(frozen=True)
class Step:
    """One act, with the seed of all that is drawn in it."""

    act: str
    seed: int


def history_of(seed: int, acts: Sequence[str] = ()) -> tuple[Step, ...]:
    """Draw a history, of all acts unless some are given."""
    drawn = random.Random(seed)
    count = drawn.randint(STEPS_MIN, STEPS_MAX)
    chosen = acts or ACTS
    return tuple(Step(drawn.choice(chosen), drawn.getrandbits(32)) for _ in range(count))


class Play:
    """A world in which a history is played; `reported` is its trace."""

    acts: ClassVar[Sequence[str]] = ()
    """What it is played of; all acts where none are named."""

    def __init__(self, seed: int) -> None:
        routes = {**tables_named("orders", "items"), "returns": ("lake.bronze.orders",)}
        self.random = random.Random(seed)
        self.world = self.made(routes)
        self.partitions = dict.fromkeys(routes, 2)
        self.reported: list[str] = []
        self.rolled: set[str] = set()
        self.played = Counter[str]()

    def made(self, routes: Mapping[str, Sequence[str]]) -> World:
        """Make the world."""
        return World(MemoryGround(), routes=routes, partitions=2)

    def run(self, steps: Iterable[Step]) -> list[str]:
        """Play all steps, then heal everything and live on; say what is wrong in the end."""
        for step in steps:
            self.random = random.Random(step.seed)
            self.reported.append(step.act)
            self.played[step.act] += 1
            getattr(self, step.act)()
        self.random = random.Random(0)
        return self.end()

    # Draws.

    def topic(self) -> tuple[str, int]:
        topic = self.random.choice(sorted(self.partitions))
        return topic, self.random.randrange(self.partitions[topic])

    def table(self) -> str:
        return catalog_name(self.random.choice([*self.world.tables, QUARANTINE]))

    def begin(self, **given: object):
        """Begin a life with drawn settings and hands."""
        seed = self.random.getrandbits(32)
        self.world.alone(seed)
        settings = {
            "records_max": self.random.choice([2, 5, 1000]),
            "accept": ["rules", "topic"] if self.random.random() < 0.5 else ["topic"],
            "max_epochs": self.random.choice([1, 4]),
        }
        return self.world.life(**{**settings, **given})

    def live(self, **given: object):
        life = self.begin(**given).run()
        if life.crashed and life.observer.crashed:
            self.played[f"crash: {life.points[-1]}"] += 1
        self.reported.append(
            f"  {life.number}: {life.error!r}" if life.error else f"  {life.number}"
        )
        return life

    # Acts of producers and time.

    def send(self) -> None:
        topic, partition = self.topic()
        extra = self.random.random()
        fields = {"surprise": 1} if extra < 0.2 else {"later": "x"} if extra < 0.4 else {}
        self.world.send(topic, self.random.randrange(1, 5), partition=partition, **fields)

    def refuse(self) -> None:
        topic, partition = self.topic()
        self.world.send_raw(topic, b"bad", None, partition=partition)

    def transact(self) -> None:
        topic, partition = self.topic()
        ending = self.world.begin(topic, self.random.randrange(1, 3), partition=partition)
        self.random.choice([ending.commit, ending.abort])()

    def some(self) -> None:
        for _ in range(2):
            self.random.choice([self.send, self.send, self.refuse, self.transact])()

    def grow(self) -> None:
        topic = self.random.choice(sorted(self.partitions))
        self.partitions[topic] += 1
        self.world.ground.grow(topic, self.partitions[topic])

    # Acts of lives.

    def plain(self) -> None:
        self.send()
        self.live()

    def crash(self) -> None:
        self.some()
        plan = f"{self.random.choice(POINTS)}:{self.random.choice([1, 1, 2, 4])}"
        self.reported.append(f"  crash at {plan}")
        self.live(crash=plan)

    def other_host(self) -> None:
        self.some()
        self.live(host="there")

    def two_at_once(self) -> None:
        """Another takes over while one is at a point; the first goes on as a zombie."""
        point = self.random.choice(
            [
                CrashPoint.EPOCH_PLANNED,
                CrashPoint.PREPARE_AFTER,
                CrashPoint.COMMIT_BEFORE,
                CrashPoint.QUARANTINE_BEFORE,
            ]
        )
        host, sends = self.random.choice(["here", "there"]), self.random.choice([True, False])
        meddles = self.random.choice([None, None, self.widen, self.lose_store])

        def another() -> None:
            if meddles:
                meddles()
            if sends:
                self.send()
            self.world.alone(1)
            self.world.life(host=host, records_max=2, accept=["topic"]).run(takeover=True)

        self.some()
        life = self.begin().at(point, another).run()
        self.reported.append(f"  zombie at {point}, {host}: {life.error!r}")

    # Acts of networks, stores and other writers.

    def fault(self) -> None:
        self.some()
        name, chosen = self.table(), self.random.choices(FAULTS, k=2)
        self.reported.append(f"  {name}: {[str(each) for each in chosen]}")
        self.world.faults.queue(name, *chosen)
        self.live()
        self.world.faults.clear()
        if self.random.random() < 0.5:
            self.world.faults.release()

    def away(self) -> None:
        self.some()
        self.world.faults.take_away(self.table())
        self.live()

    def back(self) -> None:
        for name in (*self.world.tables, QUARANTINE):
            self.world.faults.give_back(catalog_name(name))

    def lose_store(self) -> None:
        self.world.ground.lose_store("here")

    def restore_store(self) -> None:
        saved = self.world.ground.save_store("here")
        self.some()
        self.live()
        self.world.ground.restore_store("here", saved)

    def restore_under(self) -> None:
        """Put an older store back while a coordinator runs on."""
        saved = self.world.ground.save_store("here")
        self.some()
        life = self.begin(records_max=2)
        life.at(
            CrashPoint.PREPARE_AFTER, lambda: self.world.ground.restore_store("here", saved)
        ).run()
        self.reported.append(f"  {life.number}: {life.error!r}")

    def remove_file(self) -> None:
        self.world.faults.release()  # what is on its way would bring in files that are gone
        self.live(crash=f"prepare.after:{self.random.choice([1, 2])}")
        live = {
            file.path
            for name in (*self.world.tables, QUARANTINE)
            if (stored := self.world.ground.warehouse.find(catalog_name(name)))
            for file in stored.contents.files
        }
        waiting = [file.path for each in self.world.pending() for file in each.files]
        staged = [path for path in waiting if path not in live]
        if staged and self.world.ground.warehouse.file_size(path := self.random.choice(staged)):
            self.world.ground.remove_file(path)

    def existing(self) -> list[str]:
        find = self.world.ground.warehouse.find
        return [name for name in map(catalog_name, self.world.tables) if find(name)]

    def other_writer(self) -> None:
        for name in self.existing():
            self.world.ground.append(name)
            if self.random.random() < 0.5:
                self.world.ground.expire(name)

    def widen(self) -> None:
        for name in self.existing():
            if self.world.ground.warehouse.get(name).contents.schema.field("later") is None:
                self.world.ground.widen(name)

    def rollback(self) -> None:
        """Roll a table back by one of our commits: it waits for a person from then on."""
        self.plain()
        self.world.faults.release()
        for name in self.existing()[:1]:
            contents = self.world.ground.warehouse.get(name).contents
            older = [each for each in contents.ancestry() if each.commit][1:]
            newest = next((each for each in contents.ancestry() if each.commit), None)
            if newest is not None and older:
                self.world.ground.roll_back(name, older[0].id)
                self.rolled.add(f"lake.{name}")

    def rules(self) -> None:
        number = len(self.world.rulebook) + 1
        columns = self.random.choice(["drop_value", "quarantine"])
        self.world.change_rules(f"rules-{number}", columns=columns)

    # The end.

    def hit(self) -> Counter[str]:
        """Count the acts that were played, the faults that came and the points of crashes."""
        faults = (f"fault: {fault}" for _, fault in self.world.faults.played)
        return self.played + Counter(faults)

    def end(self) -> list[str]:
        self.back()
        self.world.faults.release()
        hosts = ["here", "there", "here"] if "there" in self.world.hosts else ["here"]
        for host in hosts:
            life = self.begin(host=host, accept=["rules", "topic"], records_max=1000).run()
            if life.error is not None:
                return [f"the last life ended with {life.error!r}"]
            if set(life.parked) - self.rolled:
                return [f"the last life left {life.parked} parked"]
        found = self.world.breaks(fitting=either)
        return [text for text in found if not any(name in text for name in self.rolled)]


ACTS = [
    *["plain"] * 2,
    *["crash"] * 5,
    *["fault"] * 4,
    *["two_at_once"] * 4,
    *["restore_store", "restore_under", "lose_store", "other_host", "remove_file"] * 2,
    *["away", "back", "other_writer", "widen", "rules", "grow", "rollback", "send"],
]


def fails(
    seed: int,
    steps: Sequence[Step],
    hit: Counter[str] | None = None,
    kind: type[Play] = Play,
) -> str:
    """Play a history; say what is wrong in one text, or nothing. `hit` is added to."""
    play = kind(seed)
    try:
        found = play.run(steps)
    except PenstockError as error:
        found = [f"raised {error!r}"]
    except AssertionError as error:
        found = [f"an assertion failed: {error!r}"]
    if hit is not None:
        hit.update(play.hit())
    return "; ".join(found)


def smallest(seed: int, steps: tuple[Step, ...], kind: type[Play] = Play) -> tuple[Step, ...]:
    """Leave out steps as long as the history still fails."""
    again = True
    while again:
        again = False
        for place in range(len(steps)):
            fewer = steps[:place] + steps[place + 1 :]
            if fails(seed, fewer, kind=kind):
                steps, again = fewer, True
                break
    return steps


def reported(seed: int, hit: Counter[str] | None = None, kind: type[Play] = Play) -> str:
    """Play the history of a seed; say the smallest that fails like it, or nothing."""
    steps = history_of(seed, kind.acts)
    if not fails(seed, steps, hit, kind):
        return ""
    least = smallest(seed, steps, kind)
    play = kind(seed)
    try:
        found: object = play.run(least)
    except (PenstockError, AssertionError) as error:
        found = repr(error)
    lines = [f"seed {seed}: {len(steps)} steps fail, {len(least)} are enough"]
    lines += [f"    {step}" for step in least]
    lines += ["  it went:", *(f"    {line}" for line in play.reported), f"  {found}"]
    return "\n".join(lines)


def many(seeds: Iterable[int], report: Callable[[str], object]) -> tuple[int, Counter[str]]:
    """Play histories; say each failure. Gives their number and what was played in all."""
    failed, played = 0, Counter[str]()
    with _collecting_less():
        for seed in seeds:
            if text := reported(seed, played):
                failed += 1
                report(text)
    return failed, played


@contextmanager
def _collecting_less() -> Iterator[None]:
    """Look for garbage seldom, and never among what was there before: a sixth of the time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(20_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def main() -> int:
    """Play histories side by side; with --keep, go on where the last run with that file ended."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("count", type=int)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument(
        "--keep", type=Path, help="one line for each chunk played; FILE.said adds up"
    )
    words.add_argument("--minutes", type=float, default=math.inf)
    words.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = words.parse_args()
    deadline = time.monotonic() + 60 * given.minutes
    size = max(1, given.count // CHUNKS)
    last = given.seed + given.count
    chunks = [range(at, min(at + size, last)) for at in range(given.seed, last, size)]
    found = _kept(given.keep)
    waiting = [chunk for chunk in chunks if _name(chunk) not in found]
    for chunk, (done, texts) in _played(waiting, given.processes, deadline):
        found[_name(chunk)] = done
        for text in texts:
            print(text, flush=True)
        _keep(given.keep, chunk, found)
    print(_summary(found))
    return 1 if any(each.failed for each in found.values()) else 0


@dataclass(frozen=True)
class Chunk:
    """What came of some histories; seconds are those of one core, `code` is `code_mark()`."""

    count: int
    failed: int
    seconds: float
    played: Mapping[str, int]
    code: str = ""


def code_mark() -> str:
    """Return a short mark of the code that histories are played on."""
    return mark_of([Path(__file__), *(p for room in ROOMS for p in (SOURCE / room).rglob("*.py"))])


def _played(
    waiting: Sequence[range], processes: int, deadline: float
) -> Iterator[tuple[range, tuple[Chunk, list[str]]]]:
    """Play blocks side by side, none begun after the deadline; give each as it ends."""
    running: dict[Future[tuple[Chunk, list[str]]], range] = {}
    left = iter(waiting)
    with ProcessPoolExecutor(processes) as pool:
        while True:
            while len(running) < processes and time.monotonic() < deadline:
                if (chunk := next(left, None)) is None:
                    break
                running[pool.submit(_chunk, chunk)] = chunk
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()


def _chunk(seeds: range) -> tuple[Chunk, list[str]]:
    begun = time.process_time()
    texts: list[str] = []
    failed, played = many(seeds, texts.append)
    seconds = round(time.process_time() - begun, 1)
    return Chunk(len(seeds), failed, seconds, dict(played), code_mark()), texts


def _name(chunk: range) -> str:
    return f"{chunk.start}-{chunk.stop}"


def _kept(path: Path | None) -> dict[str, Chunk]:
    if path is None or not path.exists():
        return {}
    found = (line.split(" ", 1) for line in path.read_text().splitlines())
    return {name: Chunk(**json.loads(text)) for name, text in found}


def _keep(path: Path | None, chunk: range, found: Mapping[str, Chunk]) -> None:
    if path is not None:
        text = json.dumps(asdict(found[_name(chunk)]), separators=(",", ":"))
        with path.open("a") as kept:
            kept.write(f"{_name(chunk)} {text}\n")
        path.with_name(f"{path.name}.said").write_text(f"{_summary(found)}\n")


def _summary(found: Mapping[str, Chunk]) -> str:
    played = Counter[str]()
    for chunk in found.values():
        played.update(chunk.played)
    lines = [f"{what:<28}{count:>12,}" for what, count in sorted(played.items())]
    count, failed = (sum(getattr(c, n) for c in found.values()) for n in ("count", "failed"))
    seconds = sum(each.seconds for each in found.values())
    marks = Counter[str]()
    for each in found.values():
        marks[each.code] += each.count
    lines += [f"{count:,} histories, {failed} failed, {seconds:,.0f} s of one core"]
    lines += [
        f"{count:,} of them on the code with the mark {mark}" for mark, count in marks.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
