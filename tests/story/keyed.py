"""A world of keyed tables, whose truth is the fold of the log; and epochs of many small slices."""

from __future__ import annotations

import json
import random  # noqa: TID251  seeded
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.story.backend import Held, catalog_name
from tests.story.run import LifeEngine
from tests.story.world import ORDERS, PIPELINE, RULES, SOURCE, Coordinate, World, is_object

from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import last_claim_of
from penstock.commit.purge import PurgedRows, PurgeSearch, purge_rows
from penstock.core.commits import Chain
from penstock.core.planning import Budget
from penstock.landing.epoch import trigger
from penstock.landing.settings import RewrittenTable, Settings, TableTarget
from penstock.ports.row_deletes import RowDeleteMode
from penstock.ports.store import Pause
from penstock.rows.options import KeyedOptions, RowOptions
from penstock.testing.contracts.table_fixture import Quiet

KEYED = KeyedOptions(
    keys=("n",),
    operations={"put": "upsert", "gone": "delete"},
    operation_field="op",
)
SOFT = replace(KEYED, soft=("gone", "gone_at"))
SEQUENCED = replace(SOFT, sequence=("s",))
SLICE_RECORDS = 3
RECORD_BYTES = 500


class KeyedWorld(World):
    """A world whose tables are keyed by `n`, but for those `appended`; `breaks` compares their rows
    with the fold. In `mode` rows leave them.
    """

    def __init__(
        self,
        *given: Any,
        keyed: KeyedOptions = KEYED,
        mode: RowDeleteMode = RowDeleteMode.AUTO,
        **named: Any,
    ) -> None:
        self.appended: set[str] = set()
        self.purged: set[tuple[str, Coordinate]] = set()
        self.keyed = keyed
        self.mode = mode
        super().__init__(*given, slice_bytes=SLICE_RECORDS * RECORD_BYTES, **named)
        self.rulebook[RULES] = {"keyed": keyed}

    def change(self, topic: str, partition: int, key: int, op: str, **fields: Any) -> None:
        """Send a change of a key."""
        value = {"n": key, "op": op, "v": next(self._next_value), **fields}
        self.send_raw(topic, json.dumps(value).encode(), partition=partition)

    def purge(self, name: str, meanwhile: Callable[[], object] = lambda: None) -> PurgedRows:
        """Purge the rows of all deleted keys of a table; something may happen before it commits."""
        assert self.keyed.soft is not None, "its deletes leave rows"
        search = PurgeSearch(*self.keyed.soft, self.clock.now_ms())
        context = CommitContext(last_claim_of(None), Quiet(), self.clock, lambda: 0.5, 25)
        acts = [meanwhile]

        def pauses() -> list[Pause]:
            self.purged |= {(name, at) for at in self.flagged(name)}
            while acts:
                acts.pop()()
            return self.store().pauses(PIPELINE)

        attempt = f"purge-{next(self._next_value)}"
        return purge_rows(
            search, Chain(PIPELINE, name), self.table(name), context, attempt=attempt, pauses=pauses
        )

    def flagged(self, name: str) -> list[Coordinate]:
        """List the records whose row says that their key was deleted."""
        assert self.keyed.soft is not None, "its deletes leave rows"
        flag, _ = self.keyed.soft
        rows = self.ground.warehouse.rows(catalog_name(name))
        places = [tuple(row[column] for column in SOURCE.values()) for row in rows if row[flag]]
        return [(topic, partition, offset) for topic, partition, offset in places]

    def _target(self, topic: str, table: str, options: RowOptions) -> TableTarget:
        keyed = None if table in self.appended else options.keyed
        target = super()._target(topic, table, replace(options, keyed=keyed))
        return replace(target, row_deletes=self.mode)

    def settings(self, rules: str, **changes: Any) -> Settings:
        """Return a life's settings; it may rewrite any number of bytes."""
        again: dict[str, RewrittenTable] = {}
        if self.mode is RowDeleteMode.REWRITE:
            names = {name for tables in self.routes.values() for name in tables}
            again = dict.fromkeys(names, RewrittenTable(self.ground.connector, 1 << 40))
        return super().settings(rules, **{"rewritten": again, **changes})

    def folded(self, name: str) -> dict[int, Coordinate]:
        """Return which record should be the row of each key: the last one, if it leaves a row."""
        rejects, rows = {*self.rejects(name)}, dict[int, Coordinate]()
        highest = dict[int, int]()
        for at, held in sorted(self.expected(name), key=lambda each: each[0]):
            if at in rejects or not is_object(held):
                continue
            change = json.loads(held.value or b"")
            if self.keyed.sequence:
                if highest.get(change["n"], change["s"]) > change["s"]:
                    continue
                highest[change["n"]] = change["s"]
            rows.pop(change["n"], None)
            if change["op"] == "put" or self.keyed.soft:
                rows[change["n"]] = at
        return rows

    def _misplaced(self, name: str, fits: Callable[[Held], bool]) -> list[str]:
        del fits
        rows, rejects = Counter(self.rows(name)), Counter(self.rejects(name))
        wanted = Counter(self.folded(name).values())
        found = [
            f"{name} {at}: {count} rows too few"
            for at, count in (wanted - rows).items()
            if (name, at) not in self.purged
        ]
        found += [f"{name} {at}: {count} rows too many" for at, count in (rows - wanted).items()]
        bad = Counter(at for at, held in self.expected(name) if not is_object(held))
        found += [f"{name} {at}: should be refused" for at in sorted(bad - rejects)]
        found += [f"{name} {at}: refused twice" for at, count in rejects.items() if count > 1]
        return found


def put(world: KeyedWorld, *keys: int, partition: int = 0, **fields: int) -> None:
    """Send an upsert of each key."""
    for key in keys:
        world.change("orders", partition, key, "put", **fields)


def gone(world: KeyedWorld, *keys: int, partition: int = 0, **fields: int) -> None:
    """Send a delete of each key."""
    for key in keys:
        world.change("orders", partition, key, "gone", **fields)


def values(world: World) -> dict[int, int]:
    """Return what the rows of orders say of keys; fails where a key has two."""
    rows = world.table()._warehouse.rows(catalog_name(ORDERS))
    assert len({row["n"] for row in rows}) == len(rows)
    return {row["n"]: row["v"] for row in rows}


@contextmanager
def small_slices() -> Iterator[None]:
    """Let epochs be cut into slices of few records, and let results come back in any order."""
    run = LifeEngine.run

    def shuffled(self: LifeEngine, jobs: Sequence[str]) -> Sequence[str]:
        found = [*run(self, jobs)]
        random.Random("".join(jobs)).shuffle(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        budget = partial(Budget, slice_bytes_min=1, record_bytes_unknown=float(RECORD_BYTES))
        patch.setattr(trigger, "Budget", budget)
        patch.setattr(LifeEngine, "run", shuffled)
        yield
