"""A query that its database refuses, and a database that is not there, are told at once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.sources.sql import QuerySource


def test_a_cursor_that_the_query_has_not_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"no such column: q\.idd") as refused:
        _source(tmp_path, cursor="idd").end({"part": "all"})
    assert "P893" == refused.value.code


def test_a_query_that_is_none_is_not_tried_again(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="syntax error") as refused:
        _source(tmp_path, query="SELECT id FRM t").end({"part": "all"})
    assert "P893" == refused.value.code


@pytest.mark.parametrize(("others", "one"), [(["1", "2"], "'x'"), (["'a'", "'b'"], "1")])
def test_a_cursor_of_another_type_is_told_whenever_it_comes(
    tmp_path: Path, others: list[str], one: str
) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE t (id)")
        for each in others:
            connection.execute(f"INSERT INTO t VALUES ({each})")
        connection.commit()
        source = _opened(tmp_path, "SELECT id FROM t", "id")
        assert source.end({}) is not None
        connection.execute(f"INSERT INTO t VALUES ({one})")
    connection.close()
    with pytest.raises(DecisionNeededError, match="come in no order") as refused:
        source.end({})
    assert "P857" == refused.value.code


def test_a_batch_has_no_more_rows_than_a_transaction_but_for_equal_cursors(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE t (id INTEGER)")
        ids = [1, 2, 3, 3, 4, 5, 5, 5, 5, 5, 6]
        connection.executemany("INSERT INTO t VALUES (?)", [[each] for each in ids])
    connection.close()
    source = _opened(tmp_path, "SELECT id FROM t", "id", batch_rows=3)
    found = [[row["id"] for row in each.rows] for each in source.read({}, None, source.end({}))]

    assert [[1, 2], [3, 3, 4], [5, 5, 5, 5, 5], [6]] == found


def test_a_database_that_is_locked_is_tried_again(tmp_path: Path) -> None:
    source = _source(tmp_path)
    with sqlite3.connect(tmp_path / "shop.db") as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with source._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout=1")
        with pytest.raises(Exception, match="locked") as held:
            source.end({"part": "all"})
    other.close()
    assert not isinstance(held.value, DecisionNeededError)


def test_a_database_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    source = _source(tmp_path)
    source.close()
    (tmp_path / "shop.db").unlink()
    with pytest.raises(InvalidError, match=r"no database .*shop\.db") as missing:
        _opened(tmp_path, "SELECT id FROM t", "id")
    assert "P858" == missing.value.code
    assert not (tmp_path / "shop.db").exists()


def _source(folder: Path, *, query: str = "SELECT id FROM t", cursor: str = "id") -> QuerySource:
    with sqlite3.connect(folder / "shop.db") as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1), (2)")
    connection.close()
    return _opened(folder, query, cursor)


def _opened(folder: Path, query: str, cursor: str, **more: int) -> QuerySource:
    return QuerySource(
        query=query,
        database=f"sqlite:///{folder / 'shop.db'}",
        password=None,
        cursor=[cursor],
        columns={},
        settle_seconds=0.0,
        append_only=False,
        **more,
    )
