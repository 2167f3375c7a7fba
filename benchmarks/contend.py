"""Writers that all commit to one table as fast as they can: how evenly they take turns.

Each is a process with a chain of its own in the same table; it lands progress, the smallest commit
there is, and begins the next at once. All but one of those that examined the same state lose, and
wait for about as long as their turn took (commit/attempt.py) before they look again. With `--locks`
they pass through the turnstile of shards, by locks in PostgreSQL, once they have lost.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.servers import postgresql

from benchmarks import commits, making, specs
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format
from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock, jitter
from penstock.commit.attempt import CommitContext
from penstock.commit.creation import create
from penstock.commit.land import land
from penstock.commit.turnstile import Turnstile
from penstock.connectors.sql import open_table_locks
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.events import CommitConflicted, Event
from penstock.observe.fanout import Observers
from penstock.ports.tables import TableDefinition
from penstock.spec.load import load
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.prepared import ORDERS, claim, origin, prepared

NAME = "contend.orders"
READY_SECONDS_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Options:
    """So many writers, for so many seconds; with a turnstile or without."""

    format: Format = "iceberg"
    locks: bool = False
    writers: int = 4
    seconds: int = 20


class _Conflicts:
    """Implements `ports.runtime.Observer`: counts the attempts that lost."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, event: Event) -> None:
        self.count += isinstance(event, CommitConflicted)

    def passed(self, point: CrashPoint) -> None:
        """Go on."""


class _Count(NamedTuple):
    """What one writer landed, and how often it lost."""

    landed: int
    conflicts: int


def measure(options: Options, place: Scratch) -> Measured:
    """Let them all write at once."""
    spec = specs.write(
        place.subfolder("c"), commits.NOWHERE, making.TOPIC, table_format=options.format
    )
    with ExitStack() as stack:
        locks = ""
        if options.locks:
            server = stack.enter_context(postgresql.running())
            locks = server.address(server.database())
        return _measured(_contending(spec, options, locks), options)


def _contending(spec: Path, options: Options, locks: str) -> list[_Count]:
    table, names = _table(spec, options), range(options.writers)
    first = [origin(_chain(number), {0: 0}, claim()) for number in names]
    create(*table, TableDefinition(ORDERS), tuple(first), Observers())
    spawning = multiprocessing.get_context("spawn")
    together, found = spawning.Barrier(options.writers), spawning.Queue()
    writers = [
        spawning.Process(
            target=_write,
            args=(spec, options, number, locks),
            kwargs={"together": together, "found": found},
        )
        for number in names
    ]
    for each in writers:
        each.start()
    counts = [_Count(*found.get(timeout=READY_SECONDS_MAX + options.seconds)) for _ in writers]
    for each in writers:
        each.join()
    return counts


def _measured(counts: Sequence[_Count], options: Options) -> Measured:
    landed = [each.landed for each in counts]
    values = {
        "fairness": min(landed) / max(landed),
        "commits_per_s": sum(landed) / options.seconds,
        "conflicts": sum(each.conflicts for each in counts) / max(sum(landed), 1),
    }
    return Measured(values, {"landed": landed})


def _table(spec: Path, options: Options) -> tuple[Any, tuple[str, str]]:
    catalog = "lake" if options.format == "iceberg" else "delta"
    return assembly.open_catalog(load(spec), catalog, Observers()), (f"{catalog}.{NAME}", NAME)


def _chain(number: int) -> Chain:
    return Chain(f"writer{number}", f"lake.{NAME}")


def _write(
    spec: Path, options: Options, number: int, locks: str, *, together: Any, found: Any
) -> None:
    catalog, _ = _table(spec, options)
    table = catalog.load(NAME)
    conflicts = _Conflicts()
    turnstile = Turnstile(open_table_locks(locks, ProcessSecrets()) if locks else None)
    context = CommitContext(
        claim(), conflicts, SystemClock(), jitter, retain=25, turnstile=turnstile
    )
    chain, state, landed = _chain(number), table.state(_chain(number)), 0
    together.wait(READY_SECONDS_MAX)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        commit = prepared(
            chain,
            {0: (landed, landed + 1)},
            uuid=state.uuid,
            held=claim(),
            schema_id=state.schema_id,
            epoch=landed + 1,
            attempt=f"a{landed}",
        )
        assert land(commit, table, context).landed, "nobody else is of this chain"
        landed += 1
    found.put((landed, conflicts.count))
