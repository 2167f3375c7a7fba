"""What a process keeps of a table's metadata: what never changes, and never where the table is."""

from pathlib import Path

import pytest
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadataUtil

from penstock.connectors.iceberg.catalogs import kept_tables
from penstock.connectors.iceberg.catalogs.kept_tables import COLUMNS_A_SNAPSHOT, KeptTables
from penstock.connectors.iceberg.catalogs.third_format import writable
from penstock.core.errors import ConflictError


@pytest.fixture
def parsed(monkeypatch) -> list[str]:
    """The metadata files that were read since."""
    read: list[str] = []
    parse = FromInputFile.table_metadata

    def noted(file, *given):
        read.append(file.location)
        return parse(file, *given)

    monkeypatch.setattr(FromInputFile, "table_metadata", staticmethod(noted))
    return read


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_what_is_kept_of_a_commit_is_what_its_file_says(lake, version):
    table = lake.create(properties={"format-version": version})
    for number in range(3):
        lake.land(table, {0: (number, number + 1)})
        state = table.state(lake.chain)
        kept, place = state.handle.metadata, state.handle.metadata_location
        written = TableMetadataUtil.parse_raw(Path(place.removeprefix("file://")).read_text())

        assert written == kept
        assert writable(written).model_dump_json() == writable(kept).model_dump_json()


def test_a_commit_reads_no_metadata_that_its_process_knows(lake, parsed):
    table = lake.create()
    lake.land(table, {0: (0, 1)})
    parsed.clear()
    lake.land(table, {0: (1, 2)})

    assert (2, []) == (_at(table, lake), parsed)


def test_what_another_writer_did_is_seen_though_metadata_is_kept(lake, parsed):
    table = lake.create()
    lake.land(table, {0: (0, 1)})
    before = table.state(lake.chain)
    lake.foreign_append()
    parsed.clear()
    after = table.state(lake.chain)

    assert before.head != after.head
    assert [after.handle.metadata_location] == parsed
    with pytest.raises(ConflictError):
        table.commit(before, lake.append(before, {0: (1, 2)}), retain=25)
    assert 1 == _at(table, lake)


def test_a_catalog_that_says_ok_and_moves_nothing_is_not_believed(lake, monkeypatch):
    """The pointer is read back: the metadata that was to land is kept, and counts for nothing."""
    table = lake.create()
    lake.land(table, {0: (0, 1)})
    with monkeypatch.context() as lying:
        lying.setattr("sqlalchemy.orm.Session.commit", lambda session: session.rollback())
        lake.land(table, {0: (1, 2)})
        assert 1 == _at(table, lake)

    lake.land(table, {0: (1, 2)})
    assert 2 == _at(table, lake)


def test_what_there_is_no_room_for_drops_nothing_that_is_asked_for(lake):
    """Of tables that are asked for in turns those that came first stay, else none would."""
    tables = [_with_a_snapshot(lake, f"a.{name}") for name in "abc"]
    kept = KeptTables(snapshots_max=2 * kept_tables._weight(tables[0]))
    for _ in range(2):
        for each in tables:
            kept.keep("x", each)

    assert [True, True, False] == [kept.get(each.name(), "x") is not None for each in tables]
    assert kept.get(tables[0].name(), "y") is None


def test_what_is_asked_for_no_longer_makes_room(lake):
    tables = [_with_a_snapshot(lake, f"a.{name}") for name in "abc"]
    kept = KeptTables(snapshots_max=2 * kept_tables._weight(tables[0]), looks_max=2)
    for each in tables[:2]:
        kept.keep("x", each)
    for _ in range(2):
        kept.get(tables[1].name(), "x")
    kept.keep("x", tables[2])

    assert [False, True, True] == [kept.get(each.name(), "x") is not None for each in tables]


def test_columns_of_former_schemas_count_as_well(lake):
    table = _with_a_snapshot(lake, "a.a")
    once = kept_tables._weight(table)
    schemas = table.metadata.schemas * 100
    table.metadata = table.metadata.model_copy(update={"schemas": schemas})

    assert 100 * table.metadata.last_column_id / COLUMNS_A_SNAPSHOT < kept_tables._weight(table)
    assert once < 10


def _with_a_snapshot(lake, name):
    table = lake.create(name=name)
    lake.land(table, {0: (0, 1)})
    return table.state(lake.chain).handle


def _at(table, lake) -> int:
    (position,) = {stop for stop in table.state(lake.chain).landed.offsets.values() if stop} or {0}
    return position
