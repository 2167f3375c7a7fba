"""One compare-and-set on the examined state, and what it leaves (protocol.md 5)."""

import json
import sqlite3
from dataclasses import replace

import fastavro
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import ManifestContent, read_manifest_list
from pyiceberg.types import StringType

from penstock.connectors.iceberg.files.manifest_entries import entries_of
from penstock.connectors.iceberg.files.manifest_lists import manifests_of
from penstock.connectors.iceberg.files.manifests import MERGE_AT, ManifestStack, live_entries
from penstock.connectors.iceberg.ledger.properties import tag_of
from penstock.core.commits import CommitKind
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import ConflictError, InvalidError, UnavailableError
from penstock.core.serialization import progress_to_json
from penstock.ports.tables import Verdict
from penstock.testing.contracts.table_fixture import batch_of
from penstock.testing.prepared import orders, positions

FIRST_ROW_ID = 16
"""Where an entry has the id of the first row of its file."""
ASKED_FOR = "write.metadata.delete-after-commit.enabled"


def test_c2_two_coordinators_with_one_stale_state_land_one_commit(lake):
    table = lake.create()
    other = lake.open().load("bronze.orders")
    stale = other.state(lake.chain)
    lake.land(table, {0: (0, 3)})

    with pytest.raises(ConflictError) as raised:
        other.commit(stale, lake.append(stale, {0: (0, 3)}), retain=25)
    assert "P401" == raised.value.code
    assert [0, 1, 2] == lake.ids()
    assert positions({0: 3, 1: 0}) == table.state(lake.chain).landed.offsets


def test_w9_a_column_dropped_between_state_and_commit_is_a_conflict(lake):
    table = lake.create()
    state = table.state(lake.chain)
    commit = lake.append(state, {0: (0, 2)})
    with lake.foreign().update_schema() as change:
        change.delete_column("name")

    with pytest.raises(ConflictError):
        table.commit(state, commit, retain=25)
    with pytest.raises(InvalidError) as raised:
        table.commit(table.state(lake.chain), commit, retain=25)
    assert "P439" == raised.value.code
    assert [] == lake.ids()


def test_a_column_added_after_the_files_were_written_is_no_obstacle(lake):
    table = lake.create()
    commit = lake.append(table.state(lake.chain), {0: (0, 2)})
    with lake.foreign().update_schema() as change:
        change.add_column("more", StringType())
    table.commit(table.state(lake.chain), commit, retain=25)

    assert [0, 1] == lake.ids()


def test_files_of_a_former_partition_spec_land_under_it(lake):
    table = lake.create()
    commit = lake.append(table.state(lake.chain), {0: (0, 2)})
    with lake.foreign().update_spec() as change:
        change.add_identity("_kafka_partition")
    stale = table.state(lake.chain)
    table.commit(stale, commit, retain=25)
    lake.land(table, {0: (2, 4)})

    assert [0, 1, 2, 3] == lake.ids()
    specs = {task.file.spec_id for task in lake.foreign().scan().plan_files()}
    assert {0, 1} == specs


def test_a_changed_partition_spec_between_state_and_commit_is_a_conflict(lake):
    table = lake.create()
    state = table.state(lake.chain)
    commit = lake.append(state, {0: (0, 2)})
    with lake.foreign().update_spec() as change:
        change.add_identity("_kafka_partition")

    with pytest.raises(ConflictError):
        table.commit(state, commit, retain=25)


def test_a_table_created_again_has_another_uuid_and_takes_nothing(lake):
    table = lake.create()
    state = table.state(lake.chain)
    commit = lake.append(state, {0: (0, 2)})
    lake.foreign().catalog.drop_table("bronze.orders")
    lake.create()

    with pytest.raises(ConflictError):
        table.commit(state, commit, retain=25)
    assert state.uuid != table.state(lake.chain).uuid


def test_a_commit_on_another_branch_in_between_is_a_conflict_and_then_lands(lake):
    table = lake.create()
    first = lake.land(table, {0: (0, 1)})
    state = table.state(lake.chain)
    lake.foreign().manage_snapshots().create_branch(int(first), "side").commit()
    foreign = lake.foreign()
    foreign.append(foreign.scan().to_arrow(), branch="side")
    commit = lake.append(state, {0: (1, 3)})

    with pytest.raises(ConflictError):
        table.commit(state, commit, retain=25)
    table.commit(table.state(lake.chain), commit, retain=25)
    assert [0, 1, 2] == lake.ids()


def test_a_fence_makes_attempts_on_the_old_head_conflict(lake):
    table = lake.create()
    state = table.state(lake.chain)
    commit = lake.append(state, {0: (0, 2)})
    table.commit(state, lake.fence(state), retain=25)

    assert Verdict.AGREED == table.state(lake.chain).verdict
    with pytest.raises(ConflictError):
        table.commit(state, commit, retain=25)


def test_a_conflict_deletes_nothing(lake):
    table = lake.create()
    state = table.state(lake.chain)
    commit = lake.append(state, {0: (0, 2)})
    lake.foreign_append()
    with pytest.raises(ConflictError):
        table.commit(state, commit, retain=25)

    assert [] == list(table.missing_files(commit.files))
    table.commit(table.state(lake.chain), commit, retain=25)
    assert [-1, 0, 1] == lake.ids()


def test_the_summary_names_the_commit(lake):
    table = lake.create()
    state = table.state(lake.chain)
    commit = replace(lake.append(state, {0: (0, 2), 1: (0, 1)}), valid_through_ms=77)
    table.commit(state, commit, retain=25)
    summary = lake.foreign().current_snapshot().summary

    assert {
        "penstock.pipeline": "shop",
        "penstock.commit-id": commit.commit_id,
        "penstock.generation": "1",
        "penstock.epoch": "1",
        "penstock.valid-through": "77",
        "penstock.rows": "3",
        "added-records": "3",
        "total-records": "3",
    }.items() <= summary.additional_properties.items()
    assert progress_to_json(commit.progress) == json.loads(summary["penstock.ranges"])


def test_ranges_that_are_too_many_are_said_to_be_left_out(lake):
    table = lake.create()
    state = table.state(lake.chain)
    many = dict.fromkeys(range(2000), (0, 1))
    commit = lake.anchor(state, many, origins=dict.fromkeys(many, 0))
    table.commit(state, commit, retain=25)
    lake.land(table, {0: (1, 2)})
    history = table.history(lake.chain)

    assert not history.complete
    assert [[1, 2]] == [list(row[3:]) for c in history.commits for row in c.progress]


def test_crash_points_are_passed_in_order(lake):
    table = lake.create()
    lake.land(table, {0: (0, 2)})

    assert [
        CrashPoint.FILE_OPENED,
        CrashPoint.FILE_WRITTEN,
        CrashPoint.FILE_CLOSED,
        CrashPoint.MANIFEST_WRITTEN,
    ] == lake.ears.points


def test_statistics_come_from_the_footer_without_opening_the_file_again(lake):
    table = lake.create()
    state = table.state(lake.chain)
    commit = lake.append(state, {0: (3, 6)})
    lake_file = commit.files[0].path.removeprefix("file://")
    table.commit(state, replace(commit, progress={}, kind=CommitKind.ANCHOR), retain=25)
    (task,) = lake.foreign().scan(row_filter="id >= 3 and id < 6").plan_files()

    assert [] == list(lake.foreign().scan(row_filter="id > 5").plan_files())
    assert pq.read_metadata(lake_file).num_rows == task.file.record_count
    assert {1: 3, 2: 3, 3: 3, 4: 3, 5: 3} == task.file.value_counts
    assert b"order 3" == task.file.lower_bounds[2]


def test_manifests_are_merged_and_cost_and_history_stay_small(lake):
    table = lake.create(properties=lake.trimmed_at_once)
    for turn in range(200):
        state = table.state(lake.chain)
        files = lake.write(state, batch_of(state.schema, orders({0: (turn, turn + 1)})))
        commit = replace(lake.anchor(state, {0: (turn, turn + 1)}), files=files)
        table.commit(state, commit, retain=25)
    foreign = lake.foreign()
    manifests = foreign.current_snapshot().manifests(foreign.io)

    assert list(range(200)) == lake.ids()
    assert len(manifests) <= 30
    assert {ManifestContent.DATA} == {each.content for each in manifests}
    assert 25 == len(foreign.snapshots())
    history = table.history(lake.chain)
    assert (25, 200, False) == (len(history.commits), len(history.paths), history.complete)


def without_its_partition_column(lake, version):
    """Return a table of manifests that are due to be merged, of a spec by a column that is gone."""
    table = lake.create(partition_by=["name"], properties={"format-version": version})
    for turn in range(MERGE_AT):
        lake.land(table, {0: (turn, turn + 1)})
    with lake.foreign().update_spec() as spec:
        spec.remove_field("name")
    with lake.foreign().update_schema() as change:
        change.delete_column("name")
    return table


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_table_whose_partition_column_was_dropped_lands_and_merges_and_replaces(lake, version):
    table = without_its_partition_column(lake, version)
    lake.land(table, {0: (MERGE_AT, MERGE_AT + 1)})
    foreign = lake.foreign()
    (first, *_) = foreign.scan(row_filter="id = 0").plan_files()
    counts = [
        each.existing_files_count for each in foreign.current_snapshot().manifests(foreign.io)
    ]

    assert [0, MERGE_AT] == sorted(counts)
    assert list(range(MERGE_AT + 1)) == lake.ids()
    state = table.state(lake.chain)
    gone = replace(lake.anchor(state, {}), kind=CommitKind.REPLACE, removes=(first.file.file_path,))
    table.commit(state, gone, retain=25)
    assert list(range(1, MERGE_AT + 1)) == lake.ids()


def test_a_void_field_whose_column_was_dropped_holds_no_row_up(lake):
    """Of the first format, where no schema has that column and the later one by which it splits."""
    table = without_its_partition_column(lake, "1")
    with lake.foreign().update_schema() as change:
        change.add_column("title", StringType())
    with lake.foreign().update_spec() as spec:
        spec.add_identity("title")
    for turn in range(MERGE_AT, 2 * MERGE_AT + 1):
        lake.land(table, {0: (turn, turn + 1)})
    foreign = lake.foreign()

    assert ["void", "identity"] == [str(each.transform) for each in foreign.spec().fields]
    assert list(range(2 * MERGE_AT + 1)) == lake.ids()
    assert MERGE_AT + 1 == len(foreign.scan("id > 9 and title is null").to_arrow())
    manifests = foreign.current_snapshot().manifests(foreign.io)
    by_spec = [each for each in manifests if each.partition_spec_id == foreign.spec().spec_id]
    assert [0, MERGE_AT] == sorted(each.existing_files_count for each in by_spec)
    for each in manifests:
        with foreign.io.new_input(each.manifest_path).open() as stream:
            written = json.dumps(fastavro.reader(stream).writer_schema)
        assert '["null", "null"]' not in written, "no reader in Java takes such a union"


def test_manifests_whose_partition_column_is_in_no_schema_stay_and_give_up_no_file(lake):
    without_its_partition_column(lake, "2")
    foreign = lake.foreign()
    foreign.metadata.schemas[:] = [foreign.schema()]
    head = foreign.metadata.current_snapshot_id
    (gone, *_) = live_entries(foreign, "main")
    stack = ManifestStack(foreign, 1)

    listed = list(read_manifest_list(foreign.io.new_input(stack.appended([], head).path)))
    assert [0] * MERGE_AT == [each.existing_files_count for each in listed]
    with pytest.raises(InvalidError) as raised:
        stack.replaced([], [gone], head)
    assert "P436" == raised.value.code


def test_trimming_spares_other_writers_branches_tags_and_what_the_table_keeps(lake):
    table = lake.create(properties=lake.trimmed_at_once)
    lake.foreign_append()
    foreign_snapshot = lake.foreign().current_snapshot().snapshot_id
    own = [lake.land(table, {0: (n, n + 1)}, retain=50) for n in range(8)]
    manage = lake.foreign().manage_snapshots()
    manage.create_tag(int(own[0]), "audit").create_branch(int(own[2]), "side").commit()
    lake.land(table, {0: (8, 9)}, retain=2)
    kept = {str(each.snapshot_id) for each in lake.foreign().snapshots()}

    assert {str(foreign_snapshot), own[0], own[2], own[7]} <= kept
    assert 5 == len(kept)
    with lake.foreign().transaction() as transaction:
        transaction.set_properties({"history.expire.min-snapshots-to-keep": "5"})
    for n in range(9, 15):
        lake.land(table, {0: (n, n + 1)}, retain=2)
    assert 5 <= len(lake.foreign().snapshots()) - 3
    with lake.foreign().transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    before = len(lake.foreign().snapshots())
    lake.land(table, {0: (15, 16)}, retain=1)
    assert before + 1 == len(lake.foreign().snapshots())
    assert tag_of("shop") in lake.foreign().metadata.refs


def test_retention_set_on_the_main_branch_survives_our_commits(lake):
    table = lake.create()
    first = lake.land(table, {0: (0, 1)})
    foreign = lake.foreign()
    foreign.manage_snapshots().create_branch(
        int(first), "main", min_snapshots_to_keep=3, max_snapshot_age_ms=1000
    ).commit()
    lake.land(table, {0: (1, 2)})

    assert 3 == lake.foreign().metadata.refs["main"].min_snapshots_to_keep
    assert 1000 == lake.foreign().metadata.refs["main"].max_snapshot_age_ms


def test_housekeeping_removes_old_metadata_and_nothing_that_is_named(lake):
    table = lake.open(**{"penstock.metadata_horizon_seconds": "0"})
    lake.create(properties={"write.metadata.previous-versions-max": "3"})
    table = table.load("bronze.orders")
    for n in range(8):
        lake.land(table, {0: (n, n + 1)})
    place = lake.place / "warehouse" / "bronze" / "orders" / "metadata"
    before = len(list(place.glob("*.metadata.json")))
    assert "true" == lake.foreign().properties[ASKED_FOR]
    table.housekeep()
    after = sorted(each.name for each in place.glob("*.metadata.json"))

    assert 9 == before
    assert 4 == len(after), "the current one and three in the log"
    assert list(range(8)) == lake.ids()
    for entry in lake.foreign().metadata.metadata_log:
        assert entry.metadata_file.rsplit("/", 1)[-1] in after


@pytest.mark.parametrize(
    "answer", [{ASKED_FOR: None}, {ASKED_FOR: "false"}, {"gc.enabled": "false"}]
)
def test_housekeeping_spares_metadata_of_tables_that_did_not_ask_for_it(lake, answer):
    lake.create(properties={"write.metadata.previous-versions-max": "1"})
    with lake.foreign().transaction() as change:
        change.remove_properties(*(key for key, value in answer.items() if value is None))
        change.set_properties({key: value for key, value in answer.items() if value is not None})
    table = lake.open(**{"penstock.metadata_horizon_seconds": "0"}).load("bronze.orders")
    for n in range(3):
        lake.land(table, {0: (n, n + 1)})
    place = lake.place / "warehouse" / "bronze" / "orders" / "metadata"
    before = sorted(place.glob("*.metadata.json"))
    table.housekeep()

    assert before == sorted(place.glob("*.metadata.json"))


def test_housekeeping_spares_young_files(lake):
    table = lake.create(properties={"write.metadata.previous-versions-max": "1"})
    for n in range(3):
        lake.land(table, {0: (n, n + 1)})
    place = lake.place / "warehouse" / "bronze" / "orders" / "metadata"
    before = sorted(place.glob("*.metadata.json"))
    table.housekeep()

    assert before == sorted(place.glob("*.metadata.json"))


def test_a_locked_catalog_is_unavailable_and_nothing_landed(lake):
    lake.create()
    impatient = lake.open(uri=f"{lake.settings['uri']}?timeout=0.1")
    table = impatient.load("bronze.orders")
    state = table.state(lake.chain)
    commit = lake.append(state, {0: (0, 2)})
    holder = sqlite3.connect(lake.place / "catalog.db", isolation_level=None)
    holder.execute("begin exclusive")
    try:
        with pytest.raises(UnavailableError) as raised:
            table.commit(state, commit, retain=25)
    finally:
        holder.execute("rollback")
        holder.close()

    assert "P430" == raised.value.code
    table.commit(table.state(lake.chain), commit, retain=25)
    assert [0, 1] == lake.ids()


def test_a_place_for_manifests_that_cannot_be_written_is_reported_and_nothing_landed(lake):
    table = lake.create()
    state = table.state(lake.chain)
    commit = lake.append(state, {0: (0, 2)})
    metadata = lake.place / "warehouse" / "bronze" / "orders" / "metadata"
    metadata.rename(metadata.with_name("elsewhere"))
    metadata.write_text("not a directory")

    with pytest.raises((InvalidError, UnavailableError)) as raised:
        table.commit(state, commit, retain=25)
    assert raised.value.code in {"P431", "P481"}
    metadata.unlink()
    metadata.with_name("elsewhere").rename(metadata)
    table.commit(table.state(lake.chain), commit, retain=25)
    assert [0, 1] == lake.ids()


def test_files_keep_their_first_row_id_when_manifests_are_merged_and_files_leave(lake):
    table = lake.create(properties={"format-version": "3"})
    for number in range(MERGE_AT):
        lake.land(table, {0: (2 * number, 2 * number + 2)})
    before = first_row_ids(lake)
    lake.land(table, {0: (2 * MERGE_AT, 2 * MERGE_AT + 3)})
    merged = first_row_ids(lake)

    assert [2 * number for number in range(MERGE_AT)] == sorted(before.values())
    assert before == {path: merged[path] for path in before}
    assert 1 == len(merged.keys() - before.keys())
    metadata = lake.foreign().metadata
    assert metadata.next_row_id == sum(each.added_rows for each in metadata.snapshots)
    assert metadata.next_row_id >= max(merged.values()) + 3

    [gone, *kept] = live_entries(lake.foreign(), "main")
    stack = ManifestStack(lake.foreign(), 1)
    listed = stack.replaced([], [gone], metadata.current_snapshot_id)
    head = metadata.current_snapshot().model_copy(update={"manifest_list": listed.path})
    left = [e for m in manifests_of(lake.foreign(), head) for e in entries_of(m, lake.foreign().io)]
    assert {e.data_file.file_path: e.data_file[FIRST_ROW_ID] for e in kept} == {
        e.data_file.file_path: e.data_file[FIRST_ROW_ID] for e in left
    }


def first_row_ids(lake):
    found = live_entries(lake.foreign(), "main")
    return {each.data_file.file_path: each.data_file[FIRST_ROW_ID] for each in found}


@pytest.mark.parametrize("rows", [0, 2])
def test_a_commit_of_another_branch_moves_a_table_of_the_third_format(lake, rows):
    """It takes sequence numbers, and row ids where it has rows."""
    table = lake.create(properties={"format-version": "3"})
    lake.land(table, {0: (0, 2)})
    branch = lake.catalog.load("bronze.orders@audited")
    seen = branch.state(lake.chain)
    if rows:
        lake.land(table, {0: (2, 2 + rows)})
    else:
        state = table.state(lake.chain)
        table.commit(state, lake.anchor(state, {0: (2, 3)}), retain=25)
    late = lake.append(seen, {0: (0, 2)}, origins={0: 0})
    with pytest.raises(ConflictError) as raised:
        branch.commit(seen, late, retain=25)
    assert "P401" == raised.value.code
    branch.commit(branch.state(lake.chain), late, retain=25)
