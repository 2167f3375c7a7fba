"""A storm of faults over real pipelines: `make storm MINUTES=60 SEED=1`.

    python tests/storm/storm.py MINUTES SEED [FOLDER]    the report goes to FOLDER/storm.json, .txt

- A real broker and a real REST catalog, each behind a proxy; Delta on this disk; real processes:
  two pipelines without Spark, one with it, one of three shards with two stand-bys, and a mirror of
  their topic; transactional producers; other writers on the tables.
- Faults of all kinds come every few seconds, from the seed. A checker polls all the while; at the
  end every record is compared with Kafka, value by value, and Spark reads all tables.
- The exit code is 1 when anything was lost, doubled, out of order, or ended as nobody expects.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.storm.feeder import Feeder, wait_for_open_transactions  # noqa: E402
from tests.storm.judgement import judgement_of  # noqa: E402
from tests.storm.lives import Keeper, kept  # noqa: E402
from tests.storm.other_writers import OtherWriters  # noqa: E402
from tests.storm.plan import OTHERS, WORLD, Paces, digest, plan  # noqa: E402
from tests.storm.report import Report, lines  # noqa: E402
from tests.storm.stage import CREW, DELTA, MIRROR, MIXED, SPARK, Pipe, Stage, opened  # noqa: E402
from tests.storm.watch import Watch  # noqa: E402
from tests.storm.weather import World  # noqa: E402


@dataclass(frozen=True, slots=True)
class Strength:
    """How hard it storms: pipelines, paces, records; `check_seconds` is the checker's pause."""

    pipes: tuple[Pipe, ...]
    paces: Paces
    pause: float
    batch: int
    check_seconds: float


SHORT = Strength(
    (MIXED, DELTA, MIRROR),
    Paces(
        {"mixed": 4.0, "delta": 5.0, "mirror": 4.0},
        frozenset(),
        frozenset({"mirror"}),
        world=1.2,
        others=2.0,
        grow=20.0,
    ),
    pause=0.04,
    batch=60,
    check_seconds=2.0,
)
LONG = Strength(
    (
        replace(MIXED, every="1500ms"),
        replace(DELTA, every="1500ms"),
        SPARK,
        MIRROR,
        replace(CREW, every="3s"),
    ),
    Paces(
        {
            "mixed": 15.0,
            "delta": 18.0,
            "spark": 60.0,
            "mirror": 12.0,
            **dict.fromkeys(CREW.members, 30.0),
        },
        frozenset({"spark"}),
        frozenset({"mirror"}),
        world=6.0,
        others=8.0,
        crews=frozenset(CREW.members),
        tidy=400.0,
        grow=900.0,
    ),
    pause=0.6,
    batch=40,
    check_seconds=8.0,
)


Say = Callable[[str], None]


def storm(
    stage: Stage, strength: Strength, seconds: float, seed: int, say: Say = lambda _: None
) -> Report:
    """Let it storm over a stage, and check it; `say` hears how it goes, once a check."""
    gusts = plan(seed, seconds, strength.paces)
    keepers = [keeper for pipe in stage.pipes for keeper in kept(stage, pipe)]
    world, others = World(stage, keepers), OtherWriters(stage)
    watch = Watch(stage, strength.check_seconds, lambda: say(_state(keepers, watch)))
    feeder = Feeder(stage, seed, strength.pause, strength.batch)
    phases: dict[str, float] = {}

    def of(target: str) -> Sequence:
        return [gust for gust in gusts if gust.target == target]

    with watch.watching(), ThreadPoolExecutor(len(keepers) + 2) as threads:
        with feeder.feeding():
            with _timed("beginning", phases):
                for each in [threads.submit(keeper.begin) for keeper in keepers]:
                    each.result()
            began = time.monotonic()
            at_work = [
                threads.submit(keeper.through, of(keeper.name), began, seconds)
                for keeper in keepers
            ]
            at_work.append(threads.submit(world.through, of(WORLD), began))
            at_work.append(threads.submit(others.through, of(OTHERS), began))
            for each in at_work:
                each.result()
        with _timed("settling", phases):
            world.calm()
            feeder.ways["hanging"] = wait_for_open_transactions(stage)
            firsts = [keeper for keeper in keepers if keeper.name == keeper.pipe.members[0]]
            for each in [threads.submit(keeper.settle) for keeper in firsts]:
                each.result()
    lives = [life for keeper in keepers for life in keeper.log.lives]
    with _timed("judging", phases):
        judgement = judgement_of(stage, lives, others)
    return Report(
        seed=seed,
        seconds=seconds,
        plan=digest(gusts),
        gusts=len(gusts),
        logs={keeper.name: keeper.log for keeper in keepers},
        world=world.played(),
        others=others.done,
        ways=feeder.ways,
        checks=watch.checks,
        sights=list(watch.sights),
        blind=watch.blind,
        too_late=world.late + others.late + sum(keeper.log.late for keeper in keepers),
        judgement=judgement,
        phases=phases,
        deleted=others.deleted,
    )


def _state(keepers: Sequence[Keeper], watch: Watch) -> str:
    logs = [keeper.log for keeper in keepers]
    wrong = [*watch.sights, *watch.blind, *(each for log in logs for each in log.unexpected)]
    commits = [sum(map(len, log.commits.values())) for log in logs]
    lives = [len(log.lives) for log in logs]
    return f"checks {watch.checks}, commits {commits}, lives {lives}, wrong {list(map(str, wrong))}"


@contextmanager
def _timed(name: str, phases: dict[str, float]) -> Iterator[None]:
    began = time.monotonic()
    yield
    phases[name] = round(time.monotonic() - began, 1)


def _said(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def main(words: list[str]) -> int:
    """Storm for so many minutes; print the report, and keep it."""
    minutes, seed = float(words[0]), int(words[1])
    logging.getLogger("pyiceberg").setLevel(logging.CRITICAL)  # other writers race for old metadata
    directory = Path(tempfile.mkdtemp(prefix="storm-"))
    _said(f"tables and logs are in {directory}; they stay there when anything is wrong")
    with opened(directory, LONG.pipes) as stage:
        found = storm(stage, LONG, minutes * 60, seed, _said)
    if not found.wrong:
        shutil.rmtree(directory)
    text = "\n".join(lines(found.data()))
    print(text)
    if len(words) > 2:
        folder = Path(words[2])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "storm.json").write_text(json.dumps(found.data(), indent=1) + "\n")
        (folder / "storm.txt").write_text(f"{text}\n")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
