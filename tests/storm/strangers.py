"""Strangers at work on the tables of a storm: they append, expire, compact, write checkpoints.

Invariants:
- each row of a stranger has an id of its own below zero; what a library has confirmed must stay;
- a stranger who loses a race lets it be: the pipelines' commits are not held up.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from pyiceberg.exceptions import CommitFailedException, RESTError
from tests.storm.plan import Fault, Gust, play
from tests.storm.stage import Stage, path_of

HANDS = Path(__file__).with_name("spark_hands.py")
SPARK_SECONDS_MAX = 600.0
RACES = (CommitFailedException, RESTError, DeltaError, FileNotFoundError)


@dataclass(slots=True)
class Strangers:
    """Work on all tables in turn. Use them from one thread."""

    stage: Stage
    done: Counter[str] = field(default_factory=Counter)
    rows: dict[str, set[int]] = field(default_factory=dict)
    replaced: set[Path] = field(default_factory=set)
    late: int = 0
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(-1, -1))

    def through(self, gusts: Sequence[Gust], began: float) -> None:
        """Work through a storm that began at a monotonic time."""
        self.late += play(gusts, began, lambda gust: self._act(gust.fault))

    def _act(self, fault: Fault) -> None:
        match fault:
            case Fault.APPEND:
                for table in self.stage.tables:
                    self._race(fault, table, self._append)
            case Fault.EXPIRE:
                for table in self.stage.tables:
                    self._race(fault, table, self._expire)
            case Fault.COMPACT:
                for table in self.stage.tables:
                    self._race(fault, table, self._compact)
            case Fault.TIDY:
                tidied = in_spark(self.stage, "tidy")
                gone = tidied.stdout.split()
                self.replaced |= {path_of(each) for each in gone}
                self.done[f"{fault}{', and fails' if tidied.returncode else ''}"] += 1
                self.done["files replaced by Spark"] += len(gone)
            case _:
                raise AssertionError(fault)

    def _race(self, fault: Fault, table: str, act) -> None:
        try:
            self.done[fault] += act(table)
        except RACES:
            self.done[f"{fault}, and loses the race"] += 1

    def _append(self, table: str) -> bool:
        row = {"id": next(self._ids), "text": "a stranger's", "shop": "b"}
        delta = self.stage.delta(table) if table.startswith("delta.") else None
        lake = None if table.startswith("delta.") else self.stage.iceberg(table)
        if delta is not None:
            schema = pa.schema(delta.schema().to_arrow())
            write_deltalake(delta, pa.Table.from_pylist([row], schema=schema), mode="append")
        elif lake is not None:
            lake.append(pa.Table.from_pylist([row], schema=lake.schema().as_arrow()))
        else:
            return False
        self.rows.setdefault(table, set()).add(row["id"])
        return True

    def _expire(self, table: str) -> bool:
        """Expire all snapshots of an Iceberg table but its head and the tagged ones."""
        lake = None if table.startswith("delta.") else self.stage.iceberg(table)
        if lake is None:
            return False
        kept = {ref.snapshot_id for ref in lake.metadata.refs.values()}
        gone = [each.snapshot_id for each in lake.snapshots() if each.snapshot_id not in kept]
        lake.maintenance.expire_snapshots().by_ids(gone).commit()
        return True

    def _compact(self, table: str) -> bool:
        """Compact a Delta table, write a checkpoint, clean up its log, remove what is old."""
        delta = self.stage.delta(table) if table.startswith("delta.") else None
        if delta is None:
            return False
        delta.optimize.compact()
        delta.create_checkpoint()
        delta.cleanup_metadata()
        delta.vacuum(dry_run=False)
        return True


def in_spark(stage: Stage, act: str) -> subprocess.CompletedProcess[str]:
    """Let a Spark of its own, with the jars of Delta and Iceberg, act on all tables; give how it ended."""
    told = {
        "act": act,
        "catalog": stage.catalog,
        "directory": str(stage.directory),
        "tables": {
            table: str(stage.place(table)) if table.startswith("delta.") else table
            for table in stage.everything
        },
    }
    return subprocess.run(
        [sys.executable, HANDS, json.dumps(told)],
        check=False,
        capture_output=True,
        text=True,
        timeout=SPARK_SECONDS_MAX,
    )
