"""How often each of several writers lands that commit to one table all the time, at once.

    python -m benchmarks.rivals iceberg
    python -m benchmarks.rivals delta --writers 4 --seconds 10

Each is a process with a chain of its own and lands one commit after the other, as the pipeline
does (`commit.once.land`): progress and no files, so that all their time is contention. One that
loses a race again and again must not stop while others start again: see the least of the counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Protocol

from penstock.app.assembly.connectors import connector_of
from penstock.app.assembly.process import SystemClock, jitter
from penstock.commit.attempt import CommitContext
from penstock.commit.land import land
from penstock.core.commits import Chain, CommitKind
from penstock.core.errors import UnavailableError
from penstock.observe.fanout import Observers
from penstock.ports.connectors import TableConnector
from penstock.ports.tables import TableDefinition, TableFormat
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.prepared import ORDERS, claim, origin, prepared

NAME = "bronze.orders"


class Counts(Protocol):
    """How many commits each writer has landed, in memory that processes share."""

    def __getitem__(self, number: int, /) -> int: ...
    def __setitem__(self, number: int, count: int, /) -> None: ...


def main() -> None:
    """Let writers run against each other and print what each has landed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("format", choices=["iceberg", "delta"])
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        counts = landed(given.format, Path(place), given.writers, given.seconds)
    print(f"{given.format}: {counts} commits in {given.seconds} s, {sum(counts)} together")


def landed(form: str, place: Path, writers: int, seconds: float) -> list[int]:
    """Return how many commits each writer landed, ascending."""
    ledgers = [origin(chain_of(number), {0: 0}) for number in range(writers)]
    opened(form, place).create(NAME, TableDefinition(ORDERS), ledgers)
    spawning = multiprocessing.get_context("spawn")
    counts, start = spawning.Array("i", writers), spawning.Barrier(writers + 1)
    processes = [
        spawning.Process(target=_write, args=(form, place, number, start, counts), daemon=True)
        for number in range(writers)
    ]
    for each in processes:
        each.start()
    start.wait()
    time.sleep(seconds)
    found: list[int] = sorted(counts[:])
    for each in processes:  # one that loses would go on for long
        each.terminate()
        each.join()
    return found


def chain_of(number: int) -> Chain:
    """Name the chain of one writer."""
    return Chain(f"shop_{number}", f"lake.{NAME}")


def opened(form: str, place: Path) -> TableFormat:
    """Open the catalog of a folder."""
    settings = {
        "iceberg": {
            "type": "sql",
            "uri": f"sqlite:///{place}/catalog.db",
            "warehouse": f"file://{place}/warehouse",
        },
        "delta": {"type": "delta", "root": str(place / "delta")},
    }
    connector = connector_of(TableConnector, form)
    return connector.open_catalog({"name": "lake", **settings[form]}, ProcessSecrets(), Observers())


def _write(form: str, place: Path, number: int, start: Barrier, counts: Counts) -> None:
    table, chain = opened(form, place).load(NAME), chain_of(number)
    assert table is not None, "it was created"
    conditions = CommitContext(claim(), Observers(), SystemClock(), jitter, 25)
    state = table.state(chain)
    start.wait()
    while True:
        done = counts[number]
        commit = prepared(
            chain,
            {0: (done, done + 1)},
            kind=CommitKind.ANCHOR,
            uuid=state.uuid,
            schema_id=state.schema_id,
            attempt=f"a{done}",
        )
        try:
            land(commit, table, conditions)
        except UnavailableError:
            continue  # it lost all its turns, and begins again
        counts[number] = done + 1


if __name__ == "__main__":
    main()
