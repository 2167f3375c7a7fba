"""What a rearrangement leaves in an Iceberg table: who vouches, what readers of changes see."""

import numpy as np
import pytest
from tests.integration.maintaining import maintained, swept

from penstock.connectors.iceberg import connector
from penstock.connectors.iceberg.ledger.properties import ledger_key, mark_in
from penstock.core.commits import Chain, CommitKind
from penstock.core.errors import ConflictError, DecisionNeededError
from penstock.core.maintenance import OURS
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.row_deletes import RowDeletes
from penstock.ports.tables import TableDefinition, Verdict
from penstock.testing.contracts.table_fixture import batch_of
from penstock.testing.prepared import ORDERS, orders, origin

OTHERS = Chain("other", "lake.bronze.orders")


def middle(lake, *kept):
    """List the snapshots that are neither kept, nor head, nor tagged."""
    metadata = lake.foreign().metadata
    safe = {int(each) for each in kept} | {ref.snapshot_id for ref in metadata.refs.values()}
    return [s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in safe]


def filled(lake, **given):
    """Return a table of three files in three commits of our chain."""
    table = lake.create(**given)
    for first in (0, 2, 4):
        lake.land(table, {0: (first, first + 2)})
    return table


def maintain(lake, table):
    """Maintain a table; return the snapshot."""
    assert 1 == maintained(lake.chain, table, connector).groups
    return lake.foreign().current_snapshot()


def test_the_snapshot_is_a_replacement_of_no_chain_with_true_totals(lake):
    table = filled(lake)
    before = lake.foreign()
    snapshot = maintain(lake, table)
    after = lake.foreign()

    summary = snapshot.summary
    wanted = {"total-data-files": "1", "total-records": "6", "total-delete-files": "0"}
    assert "replace" == str(summary.operation.value)
    assert wanted == {key: summary[key] for key in wanted}
    assert ("3", "1") == (summary["deleted-data-files"], summary["added-data-files"])
    assert summary["total-files-size"] == str(
        after.inspect.files()["file_size_in_bytes"][0].as_py()
    )
    assert summary.get("penstock.pipeline") is None
    assert before.metadata.refs["penstock-shop"] == after.metadata.refs["penstock-shop"]
    key = ledger_key("shop")
    assert before.properties[key] == after.properties[key]


def test_below_it_anything_may_be_expired(lake):
    table = filled(lake, properties={})
    snapshot = maintain(lake, table)
    for reference in list(lake.foreign().refs()):
        if reference.startswith("penstock-"):
            lake.foreign().manage_snapshots().remove_tag(reference).commit()
    lake.expire(middle(lake, snapshot.snapshot_id))
    state = table.state(lake.chain)

    assert 1 == len(lake.foreign().metadata.snapshots)
    assert (
        Verdict.AGREED,
        f"snapshot {snapshot.snapshot_id} vouches for all ledgers of the table",
    ) == (
        state.verdict,
        state.evidence,
    )


def test_the_newest_rows_are_witnessed_by_the_files_that_hold_them_then(lake):
    table = filled(lake)
    before = mark_in(lake.foreign().properties, "shop", "main")
    snapshot = maintain(lake, table)
    after = mark_in(lake.foreign().properties, "shop", "main")
    for _ in range(2):
        lake.foreign_append()
    lake.expire(middle(lake))
    state = table.state(lake.chain)

    assert snapshot.snapshot_id == after.files_snapshot
    assert (before.rows, before.ranges, before.number) == (after.rows, after.ranges, after.number)
    assert Verdict.AGREED is state.verdict
    assert f"1 files of snapshot {snapshot.snapshot_id} are live" in state.evidence


def test_where_only_live_files_speak_for_a_chain_nothing_is_vouched_for(lake):
    table = filled(lake)
    for _ in range(2):
        lake.foreign_append()
    lake.expire(middle(lake))
    assert Verdict.AGREED is table.state(lake.chain).verdict

    with pytest.raises(DecisionNeededError) as raised:
        maintained(lake.chain, table, connector)
    assert "P846" == raised.value.code

    lake.land(table, {0: (6, 8)})
    assert maintain(lake, table).summary["total-records"] == "10"


def test_a_chain_of_another_pipeline_that_was_rolled_back_keeps_the_table_as_it_is(lake):
    ledgers = [origin(lake.chain, {0: 0}), origin(OTHERS, {0: 0})]
    table = lake.create(ledgers=ledgers)
    lake.land(table, {0: (0, 2)})
    mine = lake.land(table, {0: (2, 4)})
    state = table.state(OTHERS)
    table.commit(state, lake.append(state, {0: (0, 2)}, chain=OTHERS), retain=25)
    lake.roll_back(mine)

    assert Verdict.AGREED is table.state(lake.chain).verdict
    with pytest.raises(DecisionNeededError) as raised:
        maintained(lake.chain, table, connector)
    assert "P846" == raised.value.code


def test_own_snapshots_are_trimmed_above_it_and_it_stays(lake):
    table = filled(lake, properties=lake.trimmed_at_once)
    snapshot = maintain(lake, table)
    for first in (6, 8, 10):
        lake.land(table, {0: (first, first + 2)}, retain=1)

    found = {each.snapshot_id for each in lake.foreign().metadata.snapshots}
    assert snapshot.snapshot_id in found
    assert 3 == len(found)
    assert Verdict.AGREED is table.state(lake.chain).verdict


def test_full_files_have_the_size_that_the_table_says(lake):
    table = filled(lake, properties={"write.target-file-size-bytes": "3500"})
    files = [each["file_size_in_bytes"] for each in lake.foreign().inspect.files().to_pylist()]
    assert all(1750 < each < 3500 for each in files)

    assert 0 == maintained(lake.chain, table, connector).groups


def test_a_keyed_chain_that_changed_rows_last_is_witnessed_as_well(lake):
    keyed = TableDefinition(ORDERS, keys=("id",))
    table = lake.catalog.create("bronze.orders", keyed, [origin(lake.chain, {0: 0})])
    for first in (0, 2):
        state = table.state(lake.chain)
        rows = orders({0: (first, first + 2)})
        commit = lake.append(state, {0: (first, first + 2)}, kind=CommitKind.ROW_DELTA)
        assert rows
        table.commit(state, commit, retain=25)
    snapshot = maintain(lake, table)
    for _ in range(2):
        lake.foreign_append()
    lake.expire(middle(lake))
    state = table.state(lake.chain)

    assert Verdict.AGREED is state.verdict
    assert f"of snapshot {snapshot.snapshot_id} are live" in state.evidence


def test_row_deletes_that_were_rolled_back_are_not_vouched_for(lake):
    keyed = TableDefinition(ORDERS, keys=("id",))
    table = lake.catalog.create("bronze.orders", keyed, [origin(lake.chain, {0: 0})])
    for first in (0, 2):
        state = table.state(lake.chain)
        commit = lake.append(state, {0: (first, first + 2)}, kind=CommitKind.ROW_DELTA)
        head = table.commit(state, commit, retain=25)
    state = table.state(lake.chain)
    [file, *_] = table.live_files(state)
    gone = [RowDeletes(file.path, "", np.array([0]))]
    deletes = lake.anchor(state, {0: (4, 5)}, kind=CommitKind.ROW_DELTA)
    table.commit(state, deletes, retain=25, row_deletes=gone)
    lake.roll_back(head)
    lake.foreign_append()
    lake.expire(middle(lake))

    assert not table.state(lake.chain).verdict.is_sound
    with pytest.raises(DecisionNeededError):
        maintained(lake.chain, table, connector)
    with pytest.raises(DecisionNeededError):
        swept(lake.chain, table)


def test_what_is_maintained_on_a_branch_says_nothing_of_main(lake):
    table = filled(lake)
    branch = lake.catalog.load("bronze.orders@audited")
    state = branch.state(lake.chain)
    commit = lake.append(state, {0: (0, 4)}, origins={0: 0, 1: 0})
    branch.commit(state, commit, retain=25)
    assert 1 == maintained(lake.chain, branch, connector).groups
    head = lake.foreign().metadata.refs["audited"].snapshot_id
    lake.roll_forward(head)
    lake.expire(middle(lake))

    state = table.state(lake.chain)
    assert Verdict.AGREED is state.verdict, state.evidence
    assert 6 == state.landed.offsets[next(iter(state.landed.offsets))]


def test_a_second_attempt_writes_nothing_but_a_list(lake):
    table = filled(lake)
    before = table.state(lake.chain)
    gone = table.delete_states(before, [each.path for each in table.live_files(before)])
    rows = lake.write(before, batch_of(ORDERS, orders({0: (0, 6)})))
    lake.land(table, {0: (6, 8)})
    with pytest.raises(ConflictError):
        table.rearrange(before, [Rearrangement(gone, rows)])
    known = {*lake.place.rglob("*.avro")}
    table.rearrange(table.state(lake.chain), [Rearrangement(gone, rows)])

    [written] = {*lake.place.rglob("*.avro")} - known
    assert written.name.startswith("snap-")
    assert [*range(8)] == lake.ids()
    assert Verdict.AGREED is table.state(lake.chain).verdict


def test_what_takes_long_is_written_before_anybody_waits(lake):
    table = lake.create()
    for at in range(0, 26, 2):  # ten manifests are one, three are small
        lake.land(table, {0: (at, at + 2)})
    before = table.state(lake.chain)
    gone = table.delete_states(before, [each.path for each in table.live_files(before)])
    moved = [Rearrangement(gone, lake.write(before, batch_of(ORDERS, orders({0: (0, 26)}))))]
    table.upkeep(before).stage(moved)
    for at in range(26, 44, 2):  # the small ones are merged meanwhile
        lake.land(table, {0: (at, at + 2)})
    known = {*lake.place.rglob("*.avro")}
    table.rearrange(table.state(lake.chain), moved)

    written = [each.name[:5] for each in {*lake.place.rglob("*.avro")} - known]
    manifests = lake.foreign().current_snapshot().manifests(lake.foreign().io)
    assert ["penst", "snap-"] == sorted(written), "a list, and what the small ones have become"
    assert [3, 10] == sorted(each.deleted_files_count for each in manifests)[-2:]
    assert [*range(44)] == lake.ids()
    assert Verdict.AGREED is table.state(lake.chain).verdict


def test_manifests_are_there_before_the_table_is_looked_at_to_land(lake):
    table = filled(lake)
    before, there = {*lake.place.rglob("*.avro")}, []
    maintained(lake.chain, table, connector, lambda: there.extend(lake.place.rglob("*.avro")))
    after = {*lake.place.rglob("*.avro")}

    assert 2 == len({*there} - before), "what comes, and what goes"
    assert ["snap-"] == [each.name[:5] for each in after - {*there}]


def test_a_file_that_is_listed_twice_is_followed_as_well(lake):
    table = filled(lake)
    path = next(iter(table.live_files(table.state(lake.chain)))).path
    lake.foreign().add_files([path], check_duplicate_files=False)
    acts = [
        lambda: lake.land(table, {0: (6, 8)}),
        lambda: lake.foreign().delete("id < 6"),
        lambda: lake.land(table, {0: (8, 10)}),
    ]
    for act in acts:
        table.live_files(table.state(lake.chain))
        act()
        kept, fresh = (
            {file.path for file in each.live_files(each.state(lake.chain))}
            for each in (table, lake.open().load("bronze.orders"))
        )
        assert kept == fresh
    assert [6, 7, 8, 9] == lake.ids()


def test_a_file_that_is_listed_twice_is_counted_and_witnessed_once(lake):
    table = filled(lake)
    files = table.live_files(table.state(lake.chain))
    newest = max(files, key=lambda each: each.bounds["id"])
    lake.foreign().add_files([newest.path], check_duplicate_files=False)
    snapshot = maintain(lake, table)

    assert "1" == snapshot.summary["total-data-files"]
    assert str(len(lake.ids())) == snapshot.summary["total-records"]
    mark = mark_in(lake.foreign().properties, "shop", "main")
    assert snapshot.snapshot_id == mark.files_snapshot


def test_what_was_rolled_back_is_a_new_snapshot_when_it_is_made_again(lake):
    table = filled(lake)
    state = table.state(lake.chain)
    gone = table.delete_states(state, [each.path for each in table.live_files(state)])
    rows = lake.write(state, batch_of(ORDERS, orders({0: (0, 6)})))
    first = table.rearrange(state, [Rearrangement(gone, rows)])
    lake.roll_back(state.head)
    second = table.rearrange(table.state(lake.chain), [Rearrangement(gone, rows)])

    assert first != second
    assert [*range(6)] == lake.ids()


def test_manifests_that_a_landing_merges_meanwhile_are_written_again(lake):
    table = filled(lake)
    before = {
        each.manifest_path
        for each in lake.foreign().current_snapshot().manifests(lake.foreign().io)
    }

    def landings():
        for at in range(6, 46, 2):
            lake.land(table, {0: (at, at + 2)})
        manifests = lake.foreign().current_snapshot().manifests(lake.foreign().io)
        assert before.isdisjoint(each.manifest_path for each in manifests), "they were merged"

    done = maintained(lake.chain, table, connector, landings)

    assert (1, 0) == (done.groups, done.given_up)
    assert [*range(46)] == lake.ids()


def test_the_layout_tells_who_rearranged_files_last(lake):
    table = filled(lake)

    def last():
        return table.layout(table.state(lake.chain)).maintained

    before = last()
    maintain(lake, table)
    own = last()
    lake.land(table, {0: (6, 8)})
    lake.land(table, {0: (8, 10)})

    assert None is before
    assert OURS == own.by
    assert own == last()
