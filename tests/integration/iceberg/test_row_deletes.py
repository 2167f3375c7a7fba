"""Keyed tables of Iceberg, read by readers that know nothing of us: every row and every value.

The warehouse has spaces, unicode and a percent sign in its path, the columns in their names, the
partitions in their values. DuckDB's own Iceberg extension cannot be had here: DuckDB reads the data
files and delete files that PyIceberg plans, and takes the deletes away itself.
"""

from __future__ import annotations

import random  # noqa: TID251  seeded

import pyarrow.parquet as pq
import pytest
from pyiceberg import expressions as where
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent
from tests.integration.iceberg.keyed import (
    CITIES,
    CITY,
    LAYOUTS,
    SCHEMA,
    SIZE,
    keyed,
    lived,
    row,
    summary_of,
)
from tests.integration.readers.lakes import SECRETS, Lakes, by_id, chain
from tests.story.iceberg_other_writers import (
    compact,
    delete_positions,
    delete_where_equal,
    places_of,
)

from penstock.app.inspect.keys_audit import keys_of
from penstock.connectors import iceberg
from penstock.connectors.iceberg.files import kept_entries
from penstock.connectors.iceberg.files.kept_entries import KeptEntries
from penstock.connectors.iceberg.files.manifest_entries import data_file_of, entries_of
from penstock.connectors.iceberg.files.manifests import MERGE_AT
from penstock.connectors.iceberg.row_deletes.changes import FILES_OF_THEIR_OWN_MAX
from penstock.connectors.iceberg.row_deletes.delete_files import PATH_ID, POSITION_ID
from penstock.core.commits import CommitKind
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import InvalidError
from penstock.ports.tables import TableDefinition, Verdict
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.prepared import prepared


@pytest.fixture
def lakes(tmp_path):
    opened = Lakes(tmp_path)
    yield opened
    opened.close()


# What is written.


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pyiceberg_duckdb_and_we_ourselves_read_what_a_table_has_lived_through(lakes, layout):
    table = lived(lakes, layout)

    assert table.rows == lakes.by_own(table.name)
    assert table.rows == table.read_by_duckdb()
    assert table.rows == table.read_by_us()
    assert len(table.rows) == table.table.describe().rows


@pytest.mark.parametrize("layout", LAYOUTS)
def test_filters_find_the_rows_that_are_left(lakes, layout):
    table = lived(lakes, layout)
    scan = lakes.known(table.name).scan
    for city in CITIES:
        term = where.IsNull(CITY) if city is None else where.EqualTo(CITY, city)
        expected = [each for each in table.rows if each[CITY] == city]
        assert expected == by_id(scan(row_filter=term).to_arrow().to_pylist())
    late = [each for each in table.rows if each["version"] > 7 and each[SIZE] < 20]
    both = where.And(where.GreaterThan("version", 7), where.LessThan(SIZE, 20.0))

    assert late
    assert late == by_id(scan(row_filter=both).to_arrow().to_pylist())
    assert late == table.read_by_duckdb(f'version > 7 AND "{SIZE}" < 20')


def entries(lakes, table, content):
    known = lakes.known(table.name)
    manifests = known.current_snapshot().manifests(known.io)
    return [
        entry
        for manifest in manifests
        if manifest.content == content
        for entry in entries_of(manifest, known.io)
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_data_file_has_one_delete_file_that_names_it_and_lies_in_its_partition(lakes, layout):
    table = lived(lakes, layout)
    known = lakes.known(table.name)
    data = {e.data_file.file_path: e.data_file for e in entries(lakes, table, ManifestContent.DATA)}
    deletes = [each.data_file for each in entries(lakes, table, ManifestContent.DELETES)]
    about = [data_file_of(each) for each in deletes]
    live = {file.path: file for file in table.table.live_files(table.state)}

    assert len(about) == len({*about})
    assert {path for path, file in live.items() if file.deleted} == {*about}
    for each, path in zip(deletes, about, strict=True):
        with known.io.new_input(each.file_path).open() as stream:
            held = pq.read_table(stream)
        positions = held["pos"].to_pylist()
        ids = [field.metadata[b"PARQUET:field_id"] for field in held.schema]
        assert [str(PATH_ID).encode(), str(POSITION_ID).encode()] == ids
        assert {path} == {*held["file_path"].to_pylist()}
        assert sorted({*positions}) == positions
        assert each.record_count == len(positions) == live[path].deleted
        assert path.encode() == each.lower_bounds[PATH_ID] == each.upper_bounds[PATH_ID]
        assert (data[path].spec_id, data[path].partition) == (each.spec_id, each.partition)
        assert len(known.io.new_input(each.file_path)) == each.file_size_in_bytes


def counted(lakes, table):
    data = [each.data_file for each in entries(lakes, table, ManifestContent.DATA)]
    deletes = [each.data_file for each in entries(lakes, table, ManifestContent.DELETES)]
    return {
        "total-data-files": len(data),
        "total-delete-files": len(deletes),
        "total-records": sum(each.record_count for each in data),
        "total-position-deletes": sum(each.record_count for each in deletes),
        "total-equality-deletes": 0,
        "total-files-size": sum(each.file_size_in_bytes for each in (*data, *deletes)),
    }


def totals(lakes, table):
    summary = summary_of(lakes, table.name)
    return {key: value for key, value in summary.items() if key.startswith("total-")}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_summary_counts_what_is_in_the_table(lakes, layout):
    table = lived(lakes, layout)
    expected = totals(lakes, table)

    assert counted(lakes, table) == expected
    assert len(table.truth) == expected["total-records"] - expected["total-position-deletes"]


def test_a_summary_counts_again_where_another_writer_gave_no_totals(lakes):
    table = keyed(lakes, "plain")
    table.change(range(10))
    known = lakes.known(table.name)
    delete_positions(known, places_of(known, "id", 3), totals=False)
    assert {} == totals(lakes, table)

    table.change([4], [5])
    assert counted(lakes, table) == totals(lakes, table)


def test_a_snapshot_says_what_it_does(lakes):
    table = keyed(lakes, "plain")
    reported = []
    for upserts, deletes in (
        (range(10), ()),
        (range(10, 20), ()),
        ((3,), (4,)),
        ((), (5, 6)),
        ((), (77,)),
        ((), range(10, 20)),
        ((), range(10)),
    ):
        table.change(upserts, deletes)
        counts = summary_of(lakes, table.name)
        keys = ("added-position-delete-files", "removed-position-delete-files")
        more = ("added-position-deletes", "removed-position-deletes", "deleted-data-files")
        reported.append((counts["operation"], *(counts.get(key, 0) for key in (*keys, *more))))

    assert [
        ("append", 0, 0, 0, 0, 0),
        ("append", 0, 0, 0, 0, 0),
        ("overwrite", 1, 0, 2, 0, 0),
        ("delete", 1, 1, 4, 2, 0),
        ("append", 0, 0, 0, 0, 0),
        ("delete", 0, 0, 0, 0, 1),
        ("delete", 0, 1, 0, 4, 2),
    ] == reported
    assert [] == lakes.by_own(table.name) == table.read_by_us()


@pytest.mark.parametrize("layout", ["plain", "by_bucket"])
def test_where_many_files_are_touched_one_delete_file_is_written_for_a_partition(lakes, layout):
    table = keyed(lakes, layout)
    many = FILES_OF_THEIR_OWN_MAX + 36
    table.change(range(12 * many), files=many)
    table.change([1], [0])
    table.change(deletes=range(3, 12 * many, 2))
    grouped = [
        each.data_file
        for each in entries(lakes, table, ManifestContent.DELETES)
        if data_file_of(each.data_file) is None
    ]
    partitions = {str(each.partition) for each in grouped}

    assert len(partitions) == len(grouped)
    assert all(each.lower_bounds[PATH_ID] < each.upper_bounds[PATH_ID] for each in grouped)
    assert grouped
    assert table.rows == lakes.by_own(table.name)
    table.change(range(6, 9), [4, 22, 1])  # a delete file about one on top of the grouped one
    table.change([2, 3], range(24, 12 * many))  # most files die
    assert table.rows == lakes.by_own(table.name) == table.read_by_us() == table.read_by_duckdb()


def test_manifests_of_deletes_are_merged_and_those_of_others_carried_along(lakes):
    table = keyed(lakes, "plain")
    table.change(range(60), files=30)
    for number in range(30):
        table.change(deletes=[2 * number])
        if number == 4:
            known = lakes.known(table.name)
            delete_positions(known, places_of(known, "id", 41), bounds=False)
            del table.truth[41]
    known = lakes.known(table.name)
    manifests = known.current_snapshot().manifests(known.io)
    kinds = [each.content for each in manifests]

    assert kinds.count(ManifestContent.DELETES) <= 2 * MERGE_AT
    assert table.rows == lakes.by_own(table.name) == table.read_by_us()
    assert 1 == sum(
        data_file_of(each.data_file) is None
        for each in entries(lakes, table, ManifestContent.DELETES)
    )


def test_a_changed_partition_spec_leaves_the_deletes_of_older_files_under_theirs(lakes):
    table = keyed(lakes, "by_city")
    table.change(range(24))
    with lakes.known(table.name).update_spec() as spec:
        spec.remove_field(CITY)
        spec.add_identity("version")
    table.change([1, 2], [3])
    table.change([2, 30], [5])
    specs = {each.data_file.spec_id for each in entries(lakes, table, ManifestContent.DELETES)}

    assert {0, 1} == specs
    assert table.rows == lakes.by_own(table.name) == table.read_by_us()


def test_rows_are_deleted_under_a_spec_whose_column_was_dropped(lakes):
    table = keyed(lakes, "by_city")
    table.change(range(24))
    with lakes.known(table.name).update_spec() as spec:
        spec.remove_field(CITY)
    with lakes.known(table.name).update_schema() as schema:
        schema.delete_column(CITY)
    state = table.state
    found = table.deletes_of(state, [3, 8])
    table.table.commit(state, row_delta(table, state), retain=100, row_deletes=found)

    assert [n for n in range(24) if n not in {3, 8}] == [each["id"] for each in table.read_by_us()]
    assert 22 == len(lakes.known(table.name).scan(selected_fields=("id",)).to_arrow())


def row_delta(table, state):
    return prepared(
        chain(table.name),
        {0: (table.offset, table.offset + 1)},
        uuid=state.uuid,
        schema_id=state.schema_id,
        kind=CommitKind.ROW_DELTA,
    )


def test_columns_that_were_added_and_renamed_are_read_by_their_ids(lakes):
    table = keyed(lakes, "plain")
    table.change(range(8))
    with lakes.known(table.name).update_schema() as schema:
        schema.rename_column("price", "unit price")
        schema.add_column("note", lakes.known(table.name).schema().find_type(CITY))
    state = table.state
    [file] = table.table.live_files(state)
    columns = ["note", "unit price", "id"]
    [batch] = table.table.read_live(state, file, columns)

    assert [*columns, "_position"] == batch.schema.names
    assert [row(each, 1)["price"] for each in range(8)] == batch["unit price"].to_pylist()
    assert [None] * 8 == batch["note"].to_pylist()
    assert {"id": (0, 7), CITY: ("Ulm an der Donau", "北京 50%")}[CITY][1] == file.bounds[CITY][1]
    assert (0, 7) == file.bounds["id"]
    with pytest.raises(InvalidError, match="no column price"):
        [*table.table.read_live(state, file, ["price"])]


def test_a_turn_reads_the_manifests_it_has_not_seen(lakes, monkeypatch):
    table = keyed(lakes, "plain")
    table.change(range(10))
    table.change([3], [4])
    known = lakes.known(table.name)
    manifests = known.current_snapshot().manifests(known.io)
    opened = []

    class Counting(PyArrowFileIO):
        def new_input(self, location):
            opened.append(location)
            return super().new_input(location)

    kept, io = KeptEntries(), Counting()
    first = [kept.of(each, io) for each in manifests]
    assert first == [kept.of(each, io) for each in manifests]
    assert [each.manifest_path for each in manifests] == opened
    assert all(first)
    monkeypatch.setattr(kept_entries, "STATISTICS_MAX", 0)
    assert first[0] == KeptEntries().of(manifests[0], io)
    assert len(manifests) + 1 == len(opened)


def test_a_table_that_was_upgraded_from_the_first_format_has_row_deletes(lakes):
    table = keyed(lakes, "by_city", **{"format-version": "1"})
    table.offset = 20
    rows = [row(number, 0) for number in range(20)]
    state = table.state
    files = table.written(state, rows)
    given = {"files": files, "uuid": state.uuid, "schema_id": state.schema_id}
    table.table.commit(state, prepared(chain(table.name), {0: (0, 20)}, **given), retain=100)
    with lakes.known(table.name).transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.truth = {each["id"]: each for each in rows}
    table.change([1, 2], [3, 4])
    table.change([2, 30], range(0, 20, 4))

    assert table.rows == lakes.by_own(table.name) == table.read_by_us() == table.read_by_duckdb()


# What others do.


@pytest.mark.parametrize("bounds", [True, False])
@pytest.mark.parametrize("layout", ["plain", "by_city"])
def test_deletes_of_others_count_whether_about_a_file_or_a_partition(lakes, layout, bounds):
    table = keyed(lakes, layout)
    table.change(range(40))
    for number in (8, 12):
        known = lakes.known(table.name)
        delete_positions(known, places_of(known, "id", number), bounds=bounds)
        del table.truth[number]
    assert table.rows == table.read_by_us()

    table.change([8, 16], [20, 12])
    assert table.rows == table.read_by_us() == lakes.by_own(table.name)
    assert len(table.rows) == table.table.describe().rows
    compact(lakes.known(table.name))
    table.change([8, 21], [24])
    assert table.rows == table.read_by_us() == lakes.by_own(table.name)


@pytest.mark.parametrize("layout", ["plain", "by_city"])
def test_keys_are_audited_by_the_rows_that_others_left(lakes, layout):
    table = keyed(lakes, layout)
    table.change(range(10))
    known = lakes.known(table.name)
    twice = known.scan(where.LessThan("id", 4)).to_arrow()
    known.append(twice)
    known.delete(where.EqualTo("id", 3))
    delete_positions(known, places_of(known, "id", 2)[:1])
    known.append(twice.slice(0, 1))
    ids = [each["id"] for each in lakes.by_own(table.name)]
    found = keys_of(table.table, table.state, ("id",))

    assert (12, 0, 2, 3) == (found.rows, found.keyless, found.repeated, found.surplus)
    assert {f'{{"id": {n}}}': ids.count(n) for n in {*ids} if ids.count(n) > 1} == {
        each.key: each.rows for each in found.examples
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layout", ["plain", "by_city"])
def test_whatever_others_do_between_commits_a_table_has_the_rows_it_must(lakes, layout, seed):
    table, chance = keyed(lakes, layout), random.Random(seed)
    table.change(range(60), files=3)
    for _ in range(15):
        known = lakes.known(table.name)
        there = sorted(table.truth)
        match chance.choice(("change", "change", "change", "delete", "delete", "compact")):
            case "change":
                table.change(chance.sample(range(80), 4), chance.sample(there, 5))
            case "delete" if there:
                number = chance.choice(there)
                live = table.truth.pop(number)
                places = places_of(known, "version", live["version"])
                of_it = [each for each in places if id_at(known, each) == number]
                delete_positions(known, of_it, bounds=chance.random() < 0.5)
            case "compact":
                compact(known)
        assert table.rows == table.read_by_us()
    assert table.rows == lakes.by_own(table.name)


def id_at(known, place):
    file, at = place
    with known.io.new_input(file.file_path).open() as stream:
        return pq.read_table(stream, columns=["id"])["id"][at].as_py()


def test_a_table_with_equality_deletes_is_refused_and_left_as_it_is(lakes):
    table = keyed(lakes, "plain")
    table.change(range(10))
    state = table.state
    found = table.deletes_of(state, [3])
    delete_where_equal(lakes.known(table.name), "id", 5)
    before = lakes.known(table.name).metadata.current_snapshot_id

    assert found
    assert table.table.describe().rows is None
    for act in (table.table.live_files, table.table.require_row_deletes):
        with pytest.raises(InvalidError, match="equality deletes") as caught:
            act(table.state)
        assert "P436" == caught.value.code
    assert before == lakes.known(table.name).metadata.current_snapshot_id


def test_a_table_of_the_first_format_has_no_row_deletes(lakes):
    table = keyed(lakes, "plain", **{"format-version": "1"})
    for act in (table.table.live_files, table.table.require_row_deletes):
        with pytest.raises(InvalidError, match="format-version 1"):
            act(table.state)
    definition = TableDefinition(SCHEMA, keys=("id",), properties={"format-version": "1"})
    with pytest.raises(InvalidError, match="format-version 1") as caught:
        lakes.create("lake.silver.first", definition)
    assert "P436" == caught.value.code


# What a crash leaves.


class KilledError(Exception):
    """The process ends here."""


class Ending(Quiet):
    """End the process at a crash point, once."""

    def __init__(self, point):
        super().__init__()
        self.left = [point]

    def passed(self, point):
        if point in self.left:
            self.left.remove(point)
            raise KilledError


def test_files_written_before_the_request_are_unreferenced_and_written_again(tmp_path):
    lakes = Lakes(tmp_path)
    ending = Ending(CrashPoint.MANIFEST_WRITTEN)
    table = keyed(lakes, "plain")
    table.change(range(10))
    before = table.rows
    settings = {"name": "lake", **lakes.iceberg}
    table.table = iceberg.connector.open_catalog(settings, SECRETS, ending).load("shop.plain")
    with pytest.raises(KilledError):
        table.change([3, 20], [4])
    left = {*tmp_path.rglob("*-deletes.parquet")}
    assert before == table.rows == lakes.by_own(table.name)
    assert 1 == len(left)

    delete_positions(lakes.known(table.name), places_of(lakes.known(table.name), "id", 3))
    del table.truth[3]
    table.change([3, 20], [4])
    named = {each.data_file.file_path for each in entries(lakes, table, ManifestContent.DELETES)}
    assert table.rows == lakes.by_own(table.name) == table.read_by_us()
    assert not {f"file://{path}" for path in left} & named
    lakes.close()


# The witnesses.


def cut_off(lakes, table, *kept):
    """Let another writer commit, and expire all snapshots that no reference needs."""
    known = lakes.known(table.name)
    known.append(known.scan().to_arrow().slice(0, 0))
    known = lakes.known(table.name)
    with known.manage_snapshots() as manage:
        for name in [each for each in known.metadata.refs if each.startswith("penstock")]:
            manage.remove_tag(name)
    known = lakes.known(table.name)
    head = known.metadata.current_snapshot_id
    gone = [each.snapshot_id for each in known.metadata.snapshots if each.snapshot_id != head]
    known.maintenance.expire_snapshots().by_ids([i for i in gone if i not in kept]).commit()


def verdict(table):
    return table.table.state(chain(table.name)).verdict


def test_a_delete_file_vouches_for_a_commit_of_deletes_alone(lakes):
    table = keyed(lakes, "plain")
    table.change(range(10))
    table.change(deletes=[3])
    cut_off(lakes, table)

    assert Verdict.AGREED == verdict(table)


def test_a_commit_that_found_no_row_to_delete_leaves_a_cut_off_history_uncertain(lakes):
    table = keyed(lakes, "plain")
    table.change(range(10))
    table.change(deletes=[77])
    cut_off(lakes, table)

    assert Verdict.UNCERTAIN == verdict(table)


def test_rows_that_are_back_are_not_taken_for_those_of_the_newest_commit(lakes):
    """The rows of the commit before prove nothing once a later one has deleted some."""
    table = keyed(lakes, "plain")
    first = table.change(range(10))
    table.change(deletes=[3])
    lakes.known(table.name).manage_snapshots().rollback_to_snapshot(int(first)).commit()
    assert Verdict.ROLLED_BACK == verdict(table)
    cut_off(lakes, table)

    assert Verdict.UNCERTAIN == verdict(table)


def test_a_delete_file_that_a_compaction_left_vouches_for_its_commit(lakes):
    table = keyed(lakes, "plain")
    table.change(range(10))
    table.change([3], [4])
    compact(lakes.known(table.name))
    cut_off(lakes, table)

    assert Verdict.AGREED == verdict(table)


def test_rows_of_a_row_delta_are_not_asked_where_its_files_were_compacted(lakes):
    """All of them are there, and may be those that an older commit had written."""
    table = keyed(lakes, "plain")
    table.change(range(10))
    table.change([11])
    compact(lakes.known(table.name))
    cut_off(lakes, table)

    assert Verdict.UNCERTAIN == verdict(table)
