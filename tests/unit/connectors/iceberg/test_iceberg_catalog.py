"""A catalog in SQLite: what a scratch table leaves, and what PyIceberg does not accept."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.app.assembly.process import SystemClock
from penstock.commit.catalog_probe import probe
from penstock.connectors.iceberg.catalog import IcebergTables, open_iceberg
from penstock.connectors.iceberg.catalogs.rest import require_comparing
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Kind, Struct
from penstock.observe.fanout import Observers
from penstock.ports.connectors import READ_ONLY
from penstock.ports.tables import TableDefinition
from penstock.spec.secrets import ProcessSecrets

COLUMNS = Struct((Field("id", Kind.LONG), Field("x", Kind.LONG)))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[IcebergTables]:
    settings = {
        "name": "lake",
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/lake",
    }
    opened = open_iceberg(settings, ProcessSecrets(), Observers())
    yield opened
    opened.close()


def test_a_catalog_whose_writer_was_killed_in_a_commit_can_be_looked_at(
    catalog: IcebergTables, tmp_path: Path
) -> None:
    """SQLite takes back what was not committed: a database opened for reading alone cannot."""
    catalog.create("fresh.orders", TableDefinition(COLUMNS), ())
    catalog.close()
    killed = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma cache_size = 1")
connection.execute("begin immediate")
connection.execute("create table t (x)")
connection.executemany("insert into t values (?)", [("x" * 4000,)] * 500)
os.kill(os.getpid(), signal.SIGKILL)
"""
    database = tmp_path / "catalog.db"
    subprocess.run([sys.executable, "-c", killed, str(database)], check=False)
    assert database.with_name("catalog.db-journal").stat().st_size

    settings = {"name": "lake", "type": "sql", "uri": f"sqlite:///{database}", READ_ONLY: True}
    looked = open_iceberg(
        {**settings, "warehouse": f"file://{tmp_path}/lake"}, ProcessSecrets(), Observers()
    )
    try:
        assert looked.load("fresh.orders") is not None
    finally:
        looked.close()


def namespaces(catalog: IcebergTables) -> set[tuple[str, ...]]:
    library = catalog._context.catalog
    above = library.list_namespaces()
    return {*above, *(each for name in above for each in library.list_namespaces(name))}


def test_a_rehearsal_leaves_no_namespace_that_it_made(catalog: IcebergTables) -> None:
    probe(catalog, "fresh.inner", "t1", SystemClock())

    assert set() == namespaces(catalog)


def test_a_rehearsal_leaves_namespaces_that_were_there(catalog: IcebergTables) -> None:
    catalog._context.catalog.create_namespace(("fresh",))

    probe(catalog, "fresh.inner", "t1", SystemClock())

    assert {("fresh",)} == namespaces(catalog)


def test_a_namespace_that_another_uses_by_now_stays(catalog: IcebergTables) -> None:
    catalog.create("fresh.inner.penstock_scratch_1", TableDefinition(COLUMNS), ())
    catalog.create("fresh.inner.orders", TableDefinition(COLUMNS), ())

    catalog.discard("fresh.inner.penstock_scratch_1")

    assert ["fresh.inner.orders"] == list(catalog.names("fresh.inner"))
    assert {("fresh",), ("fresh", "inner")} == namespaces(catalog)


def test_a_schema_that_pyiceberg_does_not_accept_is_reported_with_a_code(
    catalog: IcebergTables,
) -> None:
    made = TableDefinition(COLUMNS, identifier_fields=("id",))
    table = catalog.create("shop.orders", made, ())
    state = table.state(Chain("p", "lake.shop.orders"))

    with pytest.raises(InvalidError) as refused:
        table.evolve(state, COLUMNS)

    assert "P438" == refused.value.code


def test_a_server_that_says_that_it_is_nessie_is_refused() -> None:
    require_comparing("lake", {"uri": "http://catalog:8181"})
    with pytest.raises(InvalidError) as caught:
        require_comparing("lake", {"nessie.is-nessie-catalog": "true"})
    assert "P214" == caught.value.code
