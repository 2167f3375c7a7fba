"""The contract of sources of one's own, against queries of PostgreSQL and SQLite."""

from __future__ import annotations

import datetime as dt
import itertools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.servers.postgresql import PASSWORD, USER, PostgresqlServer

from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.ports.own_sources import OwnSource
from penstock.sources.sql import QuerySource
from penstock.testing.contracts.own_sources import OwnSourceContract

TABLE = "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC(10,2), at {time})"
ROW = "INSERT INTO orders VALUES ({id}, 'n{id}', 1.10, '2026-01-01T00:00:0{second}+00:00')"
DEFAULTS: dict[str, Any] = {
    "query": "SELECT id, name, price, at FROM orders;",
    "password": None,
    "cursor": ["at", "id"],
    "columns": {},
    "settle_seconds": 0.0,
    "append_only": True,
}


@pytest.fixture(autouse=True)
def _few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sources.sql.BATCH_ROWS", 3)


class SqlContract(OwnSourceContract):
    """Some rows, two with each time."""

    def execute(self, statement: str) -> None:
        """Execute a statement, and commit it."""
        raise NotImplementedError

    def make(self) -> None:
        self.numbers = itertools.count(1)
        for _ in range(7):
            self.add()

    def add(self) -> None:
        number = next(self.numbers)
        self.execute(ROW.format(id=number, second=number // 2))


class TestSqlite(SqlContract):
    @pytest.fixture(autouse=True)
    def _made(self, tmp_path: Path) -> None:
        self.path = tmp_path / "shop.db"
        self.execute(TABLE.format(time="TEXT"))
        self.make()

    def execute(self, statement: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(statement)

    def open_source(self) -> OwnSource:
        return QuerySource(**{**DEFAULTS, "database": f"sqlite:///{self.path}"})

    def test_rows_that_lost_their_cursor_later_are_told_by_the_next_process(self):
        first = self.open_source()
        assert len([*first.read({}, None, first.end({}))]) > 1
        self.execute("UPDATE orders SET at = NULL WHERE id = 2")

        with pytest.raises(DecisionNeededError) as raised:
            self.open_source().end({})
        assert raised.value.code == "P857"
        assert "WHERE at IS NOT NULL AND id IS NOT NULL" in raised.value.hint


class TestPostgresql(SqlContract):
    """The contract, and what transactions ask for beyond it."""

    @pytest.fixture(autouse=True)
    def _made(self, postgresql: PostgresqlServer) -> None:
        self.server, self.database = postgresql, postgresql.database()
        self.execute(TABLE.format(time="timestamptz"))
        self.make()

    def execute(self, statement: str) -> None:
        self.server.execute(statement, self.database)

    def open_source(self) -> OwnSource:
        return self.reading()

    def reading(self, **changes: Any) -> QuerySource:
        address = f"postgresql://{USER}@127.0.0.1:{self.server.port}/{self.database}"
        return QuerySource(**{**DEFAULTS, "database": address, "password": PASSWORD, **changes})

    def ids(self, source: QuerySource, at: Any = None) -> list[int]:
        return [row["id"] for batch in source.read({}, at, source.end({})) for row in batch.rows]

    def test_rows_wait_for_transactions_that_were_open_when_they_came(self):
        source = self.reading()
        end = source.end({})
        with self.server.connect(self.database) as slow:
            slow.autocommit = False
            slow.execute(ROW.format(id=8, second=4))
            self.execute(ROW.format(id=9, second=4))
            assert source.end({}) == end
            assert self.ids(source, end) == []
            slow.commit()
        assert self.ids(source, end) == [8, 9]

    def test_a_first_end_is_not_given_while_a_transaction_is_open(self, monkeypatch):
        monkeypatch.setattr("penstock.sources.sql.PATIENCE_SECONDS", 0.0)
        with self.server.connect(self.database) as slow:
            slow.autocommit = False
            slow.execute("SELECT 1")
            with pytest.raises(UnavailableError, match=r"pid \d+, idle in transaction") as held:
                self.reading().end({})
        assert "P894" == held.value.code

    def test_a_row_that_is_updated_comes_again_and_once_where_it_is_then(self):
        source = self.reading(append_only=False)
        end = source.end({})
        assert self.ids(source) == [1, 2, 3, 4, 5, 6, 7]
        self.execute("UPDATE orders SET at = '2026-01-02T00:00:00Z' WHERE id = 2")

        assert self.ids(source, end) == [2]
        assert source.replay == "resume"

    def test_rows_with_one_cursor_are_never_parted(self):
        source = self.reading(cursor=["at"])
        self.execute("UPDATE orders SET at = '2026-01-03T00:00:00Z'")
        batches = [*source.read({}, None, source.end({}))]

        assert [len(each.rows) for each in batches] == [7]
        assert batches[0].next == {"at": "2026-01-03T00:00:00+00:00", "(kinds)": "time"}

    def test_too_many_rows_with_one_cursor_are_told(self, monkeypatch):
        monkeypatch.setattr("penstock.sources.sql.EQUAL_ROWS_MAX", 5)
        self.execute("UPDATE orders SET at = '2026-01-03T00:00:00Z'")
        self.refused("P857", "have one cursor", cursor=["at"])

    def test_rows_without_a_cursor_are_told(self):
        self.execute("UPDATE orders SET at = NULL WHERE id = 2")
        self.refused("P857", "whose cursor is null")

    def test_a_cursor_that_cannot_be_kept_is_told(self):
        self.refused("P857", "the cursor price is a Decimal", cursor=["price"])

    def test_a_position_of_another_cursor_is_told(self):
        source = self.reading(cursor=["id"])
        with pytest.raises(DecisionNeededError) as raised:
            [*source.read({}, self.reading().end({}), None)]
        assert raised.value.code == "P857"

    def refused(self, code: str, words: str, **changes: Any) -> None:
        source = self.reading(**changes)
        with pytest.raises(DecisionNeededError) as raised:
            [*source.read({}, None, source.end({}))]
        assert raised.value.code == code
        assert words in raised.value.message

    def test_a_user_who_may_not_see_transactions_is_refused(self):
        self.execute("DROP ROLE IF EXISTS reader_of_sources")
        self.execute("CREATE ROLE reader_of_sources LOGIN PASSWORD 'x'")
        self.execute("GRANT SELECT ON orders TO reader_of_sources")
        address = f"postgresql://reader_of_sources@127.0.0.1:{self.server.port}/{self.database}"
        with self.server.connect(self.database), pytest.raises(InvalidError) as raised:
            self.reading(database=address, password="x").end({})
        assert raised.value.code == "P858"
        assert "pg_read_all_stats" in raised.value.hint

    def test_a_table_without_rows_has_no_end(self):
        self.execute("DELETE FROM orders")
        assert self.reading().end({}) is None
        assert self.ids_of_nothing() == []

    def ids_of_nothing(self) -> list[Any]:
        return [*self.reading().read({}, None, None)]

    def test_days_and_numbers_and_casts_are_cursors(self):
        source = self.reading(query="SELECT at::date AS day, id FROM orders", cursor=["day", "id"])
        end = source.end({})

        assert end == {"day": "2026-01-01", "id": 7, "(kinds)": "date,int"}
        assert self.ids(source, {**end, "id": 5}) == [6, 7]
        assert dt.date(2026, 1, 1) == next(source.read({}, None, end)).rows[0]["day"]

    @pytest.mark.parametrize("change", ["nobody", "no database", "no table"])
    def test_what_will_never_be_let_through_is_the_spec_s_fault(self, change):
        user, name = ("nobody" if change == "nobody" else USER), self.database
        name = "none" if change == "no database" else name
        query = "SELECT * FROM none" if change == "no table" else DEFAULTS["query"]
        address = f"postgresql://{user}@127.0.0.1:{self.server.port}/{name}"
        with pytest.raises(InvalidError, match=r"does not (let|exist)") as raised:
            self.reading(database=address, query=query).end({})
        assert raised.value.code == ("P893" if change == "no table" else "P858")

    @pytest.mark.parametrize("time", ["infinity", "0044-03-15 BC"])
    def test_a_time_that_python_has_not_is_told(self, time):
        self.execute(f"UPDATE orders SET at = '{time}' WHERE id = 3")
        source = self.reading(cursor=["id"])
        with pytest.raises(InvalidError, match="timestamp") as raised:
            [*source.read({}, None, source.end({}))]
        assert raised.value.code == "P893"


def test_a_database_of_another_kind_is_refused():
    with pytest.raises(InvalidError) as raised:
        QuerySource(**{**DEFAULTS, "database": "mysql://host/db"})
    assert raised.value.code == "P858"
