"""Other writers on the tables of a storm: they append, expire, compact, write checkpoints.

Invariants:
- each row of theirs has an id of its own below zero; what a library has confirmed must stay;
- tables with keys they compact, and delete rows of: `deleted` are partition and offset of these;
- one that loses a race gives up: the pipelines' commits are not held up.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from pyiceberg.exceptions import CommitFailedException, RESTError, ValidationException
from tests.integration.delta.foreign_compact import foreign_compact
from tests.integration.delta.foreign_delete import foreign_delete
from tests.storm.plan import Fault, Gust, play
from tests.storm.stage import KEY, KEYED, Stage, path_of
from tests.story.iceberg_other_writers import compact as rewrite
from tests.story.iceberg_other_writers import delete_positions, places_of

from penstock.connectors.delta.locations import StorageRoot

SPARK_SCRIPT = Path(__file__).with_name("spark_script.py")
SPARK_SECONDS_MAX = 600.0
RACES = (CommitFailedException, ValidationException, RESTError, DeltaError, FileNotFoundError)
"""What libraries say who lose one; PyIceberg tries again by itself and then finds what came between."""


@dataclass(slots=True)
class OtherWriters:
    """Work on all tables in turn. Use them from one thread."""

    stage: Stage
    done: Counter[str] = field(default_factory=Counter)
    rows: dict[str, set[int]] = field(default_factory=dict)
    deleted: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
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
                    if table not in KEYED:
                        self._race(fault, table, self._append)
            case Fault.EXPIRE:
                for table in self.stage.tables:
                    self._race(fault, table, self._expire)
            case Fault.COMPACT:
                for table in self.stage.tables:
                    self._race(fault, table, self._compact)
            case Fault.DELETE:
                for table in sorted(KEYED & {*self.stage.tables}):
                    self._race(fault, table, self._delete)
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
        row = {"id": next(self._ids), "text": "another writer's", "shop": "b"}
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
        """Compact a table; of a Delta table write a checkpoint, clean up its log, remove what is old.

        Iceberg tables without keys are left to Spark; deltalake does not know what deletes rows.
        """
        if table in KEYED:
            lake = None if table.startswith("delta.") else self.stage.iceberg(table)
            if lake is not None:
                rewrite(lake)
            return lake is not None
        if not table.startswith("delta.") or self.stage.delta(table) is None:
            return False
        if not foreign_compact(self.stage.place(table), self.stage.directory):
            raise CommitFailedException("its files are taken")
        delta = self.stage.delta(table)
        assert delta is not None, "no table of a storm is dropped"
        delta.create_checkpoint()
        delta.cleanup_metadata()
        delta.vacuum(dry_run=False)
        return True

    def _delete(self, table: str) -> bool:
        """Delete one row of a table with keys."""
        if table.startswith("delta."):
            rows = self.stage.rows(table)
            at = _place(rows[0]) if rows else None
            if at is None:
                return False
            root = StorageRoot(str(self.stage.directory / "delta"))
            name = table.partition(".")[2]
            if not foreign_delete(root, name, lambda row: _place(row) == at):
                raise CommitFailedException("its version is taken")
        else:
            lake = self.stage.iceberg(table)
            rows = [] if lake is None else lake.scan().to_arrow().to_pylist()
            if lake is None or not rows:
                return False
            at = _place(rows[0])
            delete_positions(lake, places_of(lake, KEY, rows[0][KEY]))
        self.deleted.setdefault(table, set()).add(at)
        return True


def _place(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["_kafka_partition"], row["_kafka_offset"]


def in_spark(stage: Stage, act: str) -> subprocess.CompletedProcess[str]:
    """Let a Spark of its own act on all tables, and read the mirrors; give how it ended."""
    order = {
        "act": act,
        "catalog": stage.catalog,
        "directory": str(stage.directory),
        "tables": {
            table: str(stage.place(table)) if table.startswith("delta.") else table
            for table in stage.everything
        },
        "brokers": stage.direct,
        "topics": [pipe.into for pipe in stage.mirrors],
    }
    return subprocess.run(
        [sys.executable, SPARK_SCRIPT, json.dumps(order)],
        check=False,
        capture_output=True,
        text=True,
        timeout=SPARK_SECONDS_MAX,
    )
