"""Random walks over keyed tables that are maintained, expired and swept, with others beside: each
row is there once, whoever reads, and what a tag or a rollback needs is there as well.
"""

from __future__ import annotations

import random  # noqa: TID251  seeded
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import In
from tests.integration.iceberg.keyed import read_by_duckdb
from tests.integration.maintaining import maintained, swept, upkept
from tests.integration.readers.lakes import CONNECTORS, Lakes, by_id, chain
from tests.integration.readers.own_rows import FILTERS, SCHEMA, OwnRows, Row, comparable, row
from tests.integration.readers.test_own_rows import SMALL, small

from penstock.app.inspect.metadata_audit import values_of
from penstock.core.errors import DecisionNeededError
from penstock.ports.tables import TableDefinition, Verdict
from penstock.testing.contracts.table_fixture import batch_of


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Lakes]:
    opened = small(Lakes(tmp_path))
    yield opened
    opened.close()


@dataclass(slots=True)
class Walk:
    """A table, its truth, and what others have done to it."""

    table: OwnRows
    chance: random.Random
    tags: dict[str, list[Row]] = field(default_factory=dict)
    foreign: int = 1_000_000

    @property
    def lakes(self) -> Lakes:
        return self.table.lakes

    def step(self) -> None:
        own = [self.change, self.change, self.change, self.maintain, self.maintain, self.upkeep]
        others = [self.appends, self.deletes, self.tag, self.roll_back]
        self.chance.choice([*own, *others])()
        self.require()

    def change(self) -> None:
        ids = self.chance.sample(range(300), 60)
        self.table.change(ids[:25], ids[20:45], ids[45:])

    def maintain(self) -> None:
        beside: list[Callable[[], None]] = [self.change, self.appends, self.deletes, lambda: None]
        meanwhile = self.chance.choice(beside)
        maintained(chain(self.table.name), self.table.table, CONNECTORS["lake"], meanwhile)

    def upkeep(self) -> None:
        upkept(chain(self.table.name), self.table.table)

    def appends(self) -> None:
        self.foreign += 1
        known = self.lakes.known(self.table.name)
        schema = self.table.table.state(chain(self.table.name)).schema
        rows = pa.Table.from_batches([batch_of(schema, [row(self.foreign, 1)])])
        known.append(rows.cast(known.schema().as_arrow()))
        self.table.truth[self.foreign] = row(self.foreign, 1)

    def deletes(self) -> None:
        gone = self.chance.sample(sorted(self.table.truth), min(9, len(self.table.truth)))
        self.lakes.known(self.table.name).delete(In("id", set(gone)))
        self.table.truth = {n: r for n, r in self.table.truth.items() if n not in gone}

    def tag(self) -> None:
        name = f"audit-{len(self.tags)}"
        known = self.lakes.known(self.table.name)
        known.manage_snapshots().create_tag(known.metadata.current_snapshot_id, name).commit()
        self.tags[name] = comparable(self.table.rows)

    def roll_back(self) -> None:
        """Roll back, which everybody refuses where it takes our commit, and back again."""
        known = self.lakes.known(self.table.name)
        head = known.current_snapshot()
        if head.parent_snapshot_id is None or not known.snapshot_by_id(head.parent_snapshot_id):
            return
        is_ours = "penstock.pipeline" in head.summary.additional_properties
        former = known.snapshot_by_id(head.parent_snapshot_id)
        known.manage_snapshots().rollback_to_snapshot(former.snapshot_id).commit()
        if is_ours:
            with pytest.raises(DecisionNeededError):
                self.maintain()
            with pytest.raises(DecisionNeededError):
                self.upkeep()
        else:
            swept(chain(self.table.name), self.table.table)
        self.lakes.known(self.table.name).manage_snapshots().set_current_snapshot(
            head.snapshot_id
        ).commit()

    def require(self) -> None:
        """Compare what a long-lived table knows with what a new one reads, and with the truth."""
        name = self.table.name
        kept, fresh = self.table.table, self.lakes.table(name)
        state = kept.state(chain(name))
        again = fresh.state(chain(name))
        assert state.head == again.head
        assert by_path(kept.live_files(state)) == by_path(fresh.live_files(again))
        assert comparable(self.table.rows) == comparable(self.lakes.by_own(name)), "its own reader"
        for tag, rows in self.tags.items():
            known = self.lakes.known(name)
            at = known.metadata.refs[tag].snapshot_id
            assert rows == comparable(by_id(known.scan(snapshot_id=at).to_arrow().to_pylist()))


def by_path(files):
    return sorted(files, key=lambda each: each.path)


@pytest.mark.parametrize(
    ("name", "by", "seed"),
    [
        ("lake.shop.flat", (), 1),
        ("lake.shop.by_kind", ("kind",), 2),
        *[
            pytest.param(f"lake.shop.w{seed}", by, seed, marks=pytest.mark.slow)
            for seed in range(10, 16)
            for by in [(), ("kind",)]
        ],
    ],
)
def test_each_row_is_there_once_in_whatever_order_tables_are_maintained(
    places: Lakes, name: str, by: tuple[str, ...], seed: int
) -> None:
    places.create(name, TableDefinition(SCHEMA, by, SMALL, keys=("id",)))
    walk = Walk(OwnRows(places, name), random.Random(seed))
    walk.change()
    for _ in range(18):
        walk.step()
    walk.maintain()
    walk.upkeep()
    walk.require()
    said = values_of(places.catalogs["lake"], name.partition(".")[2]).mismatches
    assert [] == [each for each in said if "/shop-" in each.file], "PyIceberg counts no NaN"
    assert Verdict.AGREED is walk.table.table.state(chain(name)).verdict
    for where, holds in FILTERS:
        assert walk.table.where(holds) == comparable(read_by_duckdb(places, name, where)), where
