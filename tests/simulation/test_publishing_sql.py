"""Rows of a query, published: whatever is killed, each is one message."""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.contracts.test_sql_sources import DEFAULTS
from tests.simulation.test_publishing_files import FilesWorld
from tests.story.publishing import live

from penstock.ports.sources import Source
from penstock.publishing.own_rows import OwnReadings
from penstock.publishing.own_source import PlannedSource
from penstock.sources.sql import QuerySource


@dataclass(slots=True)
class QueryWorld(FilesWorld):
    """A table that rows come into, of which some have the same time."""

    def source(self) -> Source:
        """Open the table, as a process does."""
        place = f"sqlite:///{self.folder}/shop.db"
        query = {"query": "SELECT * FROM t", "database": place, "cursor": ["at", "k"]}
        source = QuerySource(**{**DEFAULTS, **query})
        self.readings = OwnReadings(source, "query", self.clock)
        return PlannedSource(self.readings, self.clock.monotonic, fresh_seconds=1.0)

    def come(self, chance: random.Random) -> None:
        """Let rows come."""
        with closing(sqlite3.connect(self.folder / "shop.db")) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS t (at INTEGER, k TEXT, v TEXT)")
            for _ in range(chance.randrange(5)):
                number = len(self.written)
                self.written.append(f"{number}")
                row = number // 3, f"{number:04}", f"{number}"
                connection.execute("INSERT INTO t VALUES (?, ?, ?)", row)


@pytest.mark.parametrize("seed", range(15))
def test_any_history_of_a_table_is_published_once(seed, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("penstock.sources.sql.BATCH_ROWS", 3)
    chance = random.Random(seed)
    world = QueryWorld(folder=tmp_path, rows_max=chance.choice([1, 5, 1000]))

    for _ in range(chance.randrange(2, 6)):
        world.come(chance)
        live(world, chance)
        assert len(world.values()) == len({*world.values()})
    last = world.run()

    assert last.error is None
    assert sorted(world.written) == sorted(world.values())
