"""News of tables: the contract of sources of one's own, and what metadata tell, in both formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.test_delta_tables import DeltaFixture
from tests.contracts.test_iceberg_tables import IcebergFixture

from penstock.core.commits import Chain, CommitKind
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.own_sources import Place, PositionGoneError
from penstock.ports.tables import Table, TableFormat, TableState
from penstock.sources.news import Followed, NewsSource
from penstock.sources.news_events import PREFIX
from penstock.testing.contracts.own_sources import OwnSourceContract
from penstock.testing.contracts.table_fixture import RETAIN, TableBench
from penstock.testing.prepared import claim, origin

KINDS = ("commits", "tables", "through")
REJECTS = Chain("shop/lake.bronze.orders", "lake.ops.quarantine")


class Followable:
    """Implements `FollowedTables` over a catalog."""

    def __init__(self, catalog: TableFormat, chains: Sequence[Followed]) -> None:
        self._catalog, self._chains = catalog, chains

    def chains(self) -> Sequence[Followed]:
        return self._chains

    def load(self, table: str) -> Table | None:
        return self._catalog.load(table.removeprefix("lake."))

    def require(self, chain: Chain, table: Table, state: TableState) -> None:
        """Every table is as it should be."""

    def close(self) -> None:
        """Keep the catalog."""


class NewsBench(TableBench):
    """A table of orders and its quarantine, with commits in both."""

    @pytest.fixture(autouse=True)
    def _made(self, tmp_path: Path) -> Iterator[None]:
        self.opened_catalog = self.open_catalog(tmp_path)
        self.orders = self.create(self.opened_catalog, origin(self.chain, {0: 0, 1: 0}))
        self.rejects = self.create_quarantine(self.opened_catalog, origin(REJECTS, {0: 0, 1: 0}))
        self.reached = 0
        yield
        self.opened_catalog.close()

    def open_source(self) -> NewsSource:
        chains = [Followed(self.chain), Followed(REJECTS, counts=False)]
        return NewsSource("shop", Followable(self.opened_catalog, chains), KINDS, "text/json")

    def more(self, count: int = 1, **given: Any) -> None:
        """Land commits of two rows."""
        for _ in range(count):
            self.reached += 2
            reached, through = self.reached, {"valid_through_ms": self.reached}
            self.land(self.orders, {0: (reached - 2, reached)}, **{**through, **given})

    def told(self, at: Place | None, chain: Chain | None = None) -> tuple[list[Any], Place | None]:
        """Return what is told behind a position, and the position behind that."""
        own = chain or self.chain
        rows: list[Any] = []
        for batch in self.open_source().read({"table": own.table, "chain": own.name}, at, None):
            rows, at = [*rows, *batch.rows], batch.next
        return rows, at

    def told_one_by_one(self, at: Place | None) -> tuple[list[Any], Place | None]:
        """Return what processes tell that die after each event."""
        rows: list[Any] = []
        part = {"table": self.chain.table, "chain": self.chain.name}
        while batch := next(iter(self.open_source().read(part, at, None)), None):
            rows, at = [*rows, *batch.rows], batch.next
        return rows, at


def types(rows: Sequence[Any]) -> list[str]:
    """Return the types of events, and the ranges of partition 0 that they are about."""
    found = []
    for each in rows:
        name = each["ce_type"].removeprefix(PREFIX).removesuffix(".v1")
        ranges = [f" {r['start']}-{r['stop']}" for r in each.get("ranges") or []]
        found.append(f"{name}{''.join(ranges)}")
    return found


class NewsTests(NewsBench):
    """What each format's metadata tell."""

    def test_commits_are_told_in_their_order_and_foreign_ones_passed_over(self):
        self.more()
        self.foreign_append(self.orders)
        self.anchor(self.orders, {0: (2, 5)})
        rows, at = self.told(None)

        assert types(rows) == ["table.created", "commit.landed 0-2", "commit.landed 2-5"]
        assert ["1", "2", "3"] == [each["ce_sequence"] for each in rows]
        listed = self.orders.history(self.chain).commits
        assert [each["ce_id"] for each in rows[1:]] == [each.commit_id for each in listed]
        self.foreign_append(self.orders)
        assert self.told(at) == ([], at)

    def test_from_the_latest_on_only_what_comes_later_is_told(self):
        self.more(2)
        self.foreign_append(self.orders)
        source, part = self.open_source(), {"table": self.chain.table, "chain": self.chain.name}
        at, nowhere = source.end(part), source.end({**part, "table": "lake.bronze.later"})
        assert self.told(at) == ([], at)
        self.more()

        assert types(self.told(at)[0]) == ["commit.landed 4-6"]
        assert "table.created" in types(self.told(nowhere)[0])
        assert (6, 0) == tuple(source.end({"through": "shop"})[n] for n in ("ms", "told"))

    def test_a_chain_of_quarantine_tells_its_commits_alone(self):
        self.reject(self.rejects, REJECTS, [(0, 3)])
        assert types(self.told(None, REJECTS)[0]) == ["commit.landed 0-10"]

    def test_commits_that_expired_first_are_told_by_their_ranges(self, monkeypatch):
        if not self.trims:
            pytest.skip("its history ends elsewhere")
        self.more()
        _, at = self.told(None)
        self.more(4, retain=1)
        monkeypatch.setattr("penstock.sources.news.BATCH_EVENTS", 1)
        rows, at = self.told_one_by_one(at)

        assert types(rows) == ["commits.skipped 2-6", "commit.landed 6-8", "commit.landed 8-10"]
        self.more()
        assert types(self.told(at)[0]) == ["commit.landed 10-12"]

    def test_commits_that_expired_before_any_was_told_are_not_forgotten(self):
        if not self.trims:
            pytest.skip("its history ends elsewhere")
        _, at = self.told(None)
        self.more(4, retain=1)

        assert types(self.told(at)[0]) == [
            "commits.skipped 0-4",
            "commit.landed 4-6",
            "commit.landed 6-8",
        ]

    def test_a_rollback_is_told_once_and_a_seek_ends_it(self):
        self.rolled_back_here()
        rows, at = self.told(self.at)
        assert (types(rows), self.told(at)) == (["table.rolled-back"], ([], at))
        state = self.orders.state(self.chain)
        given = {"kind": CommitKind.SEEK, "origins": {0: 2}, "held": claim(2)}
        seek = replace(self.prepare(state, {}, nonce="seek", **given), segment=1)
        self.orders.commit(state, seek, retain=RETAIN)
        self.land(self.orders, {0: (2, 6)}, held=claim(3))
        rows, at = self.told(at)

        assert types(rows) == ["table.moved", "commit.landed 2-6"]
        assert self.told(at) == ([], at)

    def rolled_back_here(self) -> None:
        """Tell of two commits, of which the later one is taken back."""
        first = self.land(self.orders, {0: (0, 2)})
        self.land(self.orders, {0: (2, 5)})
        _, self.at = self.told(None)
        self.roll_back(self.orders, first)

    def test_a_table_that_changed_or_was_made_again_is_told(self):
        self.more()
        _, at = self.told(None)
        state = self.orders.state(self.chain)
        wider = Struct((*state.schema.fields, Field("note", Kind.STRING)))
        self.orders.evolve(state, wider)
        rows, at = self.told(at)
        assert types(rows) == ["table.changed"]
        assert "note" in [each["name"] for each in rows[0]["columns"]]

        self.drop(self.opened_catalog, self.name)
        assert self.told(at) == ([], at)
        self.orders = self.create(self.opened_catalog, origin(self.chain, {0: 0, 1: 0}))
        self.land(self.orders, {0: (0, 1)})
        rows, _ = self.told(at)
        assert types(rows) == ["table.created", "commit.landed 0-1"]
        assert [each["ce_sequence"] for each in rows] == ["4", "5"]

    def test_the_time_of_all_tables_never_goes_back(self):
        part = {"through": "shop"}
        assert [] == [*self.open_source().read(part, None, None)]
        self.more(2)
        (batch,) = self.open_source().read(part, None, None)
        assert (batch.rows[0]["valid_through_ms"], batch.next["ms"]) == (4, 4)
        self.roll_back_all()
        assert [] == [*self.open_source().read(part, batch.next, None)]

    def roll_back_all(self) -> None:
        first = self.orders.history(self.chain).commits[0].snapshot
        self.roll_back(self.orders, first)

    def test_a_position_that_is_none_is_refused(self):
        with pytest.raises(PositionGoneError):
            self.told({"page": 3})


class TestNewsOfIceberg(NewsTests, IcebergFixture):
    pass


class TestNewsOfDelta(NewsTests, DeltaFixture):
    pass


class Contract(NewsBench, OwnSourceContract):
    """The contract of sources, over commits that are there."""

    @pytest.fixture(autouse=True)
    def _some(self, _made: None) -> None:
        self.more(3)
        self.reject(self.rejects, REJECTS, [(0, 3)])

    def add(self) -> None:
        self.more()


class TestContractOfIceberg(Contract, IcebergFixture):
    pass


class TestContractOfDelta(Contract, DeltaFixture):
    pass
