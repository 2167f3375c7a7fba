"""Tables that were maintained are read by everybody, row by row, and changed as ever afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.integration.delta.keyed import counted, queried
from tests.integration.iceberg.keyed import read_by_duckdb
from tests.integration.maintaining import maintained, upkept
from tests.integration.readers.lakes import CONNECTORS, SECRETS, Lakes, by_id, chain
from tests.integration.readers.own_rows import FILTERS, SCHEMA, OwnRows, comparable, row
from tests.integration.readers.test_own_rows import DELTA, ICEBERG, made, require_sound, small

from penstock.observe.fanout import UNHEARD
from penstock.ports.connectors import TableConnector
from penstock.ports.tables import TableDefinition
from penstock.publishing.table_source import TableSource


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Lakes]:
    opened = small(Lakes(tmp_path))
    yield opened
    opened.close()


def connector_of(name: str) -> TableConnector:
    """Return the connector of a table's catalog."""
    return CONNECTORS[name.partition(".")[0]]


def maintain(table: OwnRows) -> None:
    """Maintain a table with many deleted rows, in which keys change meanwhile."""
    connector = connector_of(table.name)

    def meanwhile() -> None:
        table.change(range(420, 430), range(150, 190), range(301, 400, 9))

    done = maintained(chain(table.name), table.table, connector, meanwhile)
    assert min(done.groups, done.deleted, done.carried) > 0
    assert 0 == done.given_up
    maintained(chain(table.name), table.table, connector)
    require_sound(table)


def change(table: OwnRows) -> None:
    """Change keys; snapshots expire and files are swept before and after."""
    upkept(chain(table.name), table.table)
    table.change(range(150, 260), range(150, 200), range(300, 420, 7))
    _, deleted = upkept(chain(table.name), table.table)
    assert deleted or table.name.startswith("delta"), "manifests at least"
    require_sound(table)


@pytest.mark.parametrize("layout", ["flat", "by_day"])
def test_pyiceberg_and_duckdb_read_what_was_rearranged(places: Lakes, layout: str) -> None:
    table = made(places, f"lake.shop.{layout}", ICEBERG[layout])
    maintain(table)
    change(table)

    assert comparable(table.rows) == comparable(places.by_own(table.name))
    for where, holds in FILTERS:
        found = comparable(read_by_duckdb(places, table.name, where))
        assert table.where(holds) == found, where


@pytest.mark.parametrize("layout", ["flat", "by_day"])
def test_deltalake_reads_what_was_rearranged(places: Lakes, layout: str) -> None:
    table = made(places, f"delta.shop.{layout}", DELTA[layout])
    maintain(table)
    change(table)
    ids = [each["id"] for each in table.rows]

    assert comparable(table.rows) == comparable(places.by_own(table.name))
    assert [len(ids), ids[0], ids[-1]] == counted(places.handle(table.name))
    for where, holds in FILTERS:
        found = comparable(queried(places.handle(table.name), where))
        assert table.where(holds) == found, where


@pytest.mark.parametrize("catalog", ["lake", "delta"])
def test_a_publication_reads_no_row_again(tmp_path: Path, catalog: str) -> None:
    places = Lakes(tmp_path)
    name = f"{catalog}.shop.published"
    places.create(name, TableDefinition(SCHEMA))
    for first in (0, 10, 20):
        places.landed(name, [row(each, 1) for each in range(first, first + 10)])
    connector = CONNECTORS[catalog]
    settings = {"name": catalog, **(places.iceberg if catalog == "lake" else places.delta)}
    assert connector.open_increments is not None
    increments = connector.open_increments(settings, SECRETS, UNHEARD, "shop.published")
    ticks = count()
    source = TableSource(increments, name, "stop", lambda: float(next(ticks)))
    begun, read = source.starts("earliest"), source.ends()
    assert 30 == source.count(begun, read)

    assert 1 == maintained(chain(name), places.table(name), connector_of(name)).groups
    assert 0 == source.count(read, source.ends())
    places.landed(name, [row(each, 2) for each in range(30, 35)])
    assert 1 == maintained(chain(name), places.table(name), connector_of(name)).groups
    assert 5 == source.count(read, source.ends())
    source.close()


@pytest.mark.spark
@pytest.mark.parametrize("catalog", ["lake", "delta"])
def test_spark_reads_what_was_rearranged(lakes: Lakes, catalog: str) -> None:
    by = (ICEBERG if catalog == "lake" else DELTA)["by_day"]
    table = made(small(lakes), f"{catalog}.shop.maintained", by)
    maintain(table)
    summed = "SELECT count(*) AS n, min(id) AS low, max(id) AS high FROM {t}"
    ids = [each["id"] for each in table.rows]

    assert comparable(table.rows) == comparable(lakes.by_spark(table.name))
    assert [{"n": len(ids), "low": ids[0], "high": ids[-1]}] == lakes.sql(summed, t=table.name)
    for where, holds in FILTERS:
        found = lakes.sql(f"SELECT * FROM {{t}} WHERE {where}", t=table.name)
        assert table.where(holds) == comparable(by_id(found)), where
