"""What others do to a table between our commits, and what our witnesses make of it.

Holes S4, W3 (RESTORE), S5 (transaction retention), and log clean-up.
"""

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake
from tests.integration.delta.lake import CHAIN, Lake, origin

from penstock.core.commits import landed_after
from penstock.core.errors import ConflictError, PenstockError
from penstock.ports.tables import Verdict
from penstock.testing.prepared import claim, positions


@pytest.fixture(params=["cold", "warm"])
def lake(tmp_path, request):
    lake = Lake(tmp_path, warm=request.param == "warm")
    lake.create()
    return lake


def replace_rows(lake, mode="overwrite", predicate=None):
    schema = pa.schema(lake.handle.schema().to_arrow())
    row = {
        "id": 0,
        "name": "order 0",
        "_kafka_topic": None,
        "_kafka_partition": None,
        "_kafka_offset": None,
    }
    rows = pa.Table.from_pylist([row], schema=schema)
    write_deltalake(lake.location, rows, mode=mode, predicate=predicate)


def test_w3_a_restore_is_found_in_the_log_though_txn_and_commit_info_survive_it(lake):
    for epoch in range(4):
        lake.land({0: (epoch, epoch + 1)})
    lake.handle.restore(1)
    state = lake.state()

    assert Verdict.ROLLED_BACK == state.verdict
    assert "version 5 is a RESTORE" == state.evidence
    assert positions({0: 4}) == state.landed.offsets
    assert [0] == lake.ids()


def test_s4_twenty_epochs_then_a_restore_stay_rolled_back_through_fences_and_appends(lake):
    for epoch in range(20):
        lake.land({0: (epoch, epoch + 1)})
    before = lake.state().landed
    lake.handle.restore(7)
    for turn in range(3):
        lake.foreign_append()
        lake.fence(held=claim(2 + turn), nonce=f"f{turn}")

        assert Verdict.ROLLED_BACK == lake.state().verdict
        assert "version 21 is a RESTORE" == lake.state().evidence
        assert before == lake.state().landed


def test_a_reported_rollback_outlives_the_log_entries_that_showed_it(lake):
    lake.land({0: (0, 2)})
    lake.land({0: (2, 5)})
    lake.handle.restore(1)
    lake.fence()
    lake.foreign_append()
    lake.clean_up_log()

    assert Verdict.ROLLED_BACK == lake.state().verdict
    assert positions({0: 5}) == lake.state().landed.offsets


def test_a_restore_between_examination_and_commit_is_a_conflict_and_stays_reported(lake):
    lake.land({0: (0, 2)})
    lake.land({0: (2, 4)})
    state = lake.state()
    commit = lake.prepare(state, {0: (4, 6)})
    lake.handle.restore(1)
    with pytest.raises(ConflictError):
        lake.table.commit(state, commit, retain=25)

    assert Verdict.ROLLED_BACK == lake.state().verdict


def drop_all(lake):
    lake.handle.delete()


def overwrite(lake):
    replace_rows(lake)


def overwrite_some(lake):
    replace_rows(lake, predicate="id = 0")


@pytest.mark.parametrize("act", [overwrite, overwrite_some, drop_all])
def test_replaced_rows_are_a_rollback(lake, act):
    lake.land({0: (0, 3)})
    act(lake)
    lake.foreign_append()

    assert Verdict.ROLLED_BACK == lake.state().verdict


def delete_some(lake):
    lake.handle.delete("id = 1")


def update_some(lake):
    lake.handle.update(predicate="id = 1", updates={"name": "'changed'"})


def merge_some(lake):
    source = pa.table({"id": pa.array([1], pa.int64())})
    merge = lake.handle.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_delete().execute()


@pytest.mark.parametrize("act", [delete_some, update_some, merge_some])
def test_rows_changed_by_their_users_leave_the_ledger_true_and_are_named(lake, act):
    lake.land({0: (0, 3)})
    landed = lake.state().landed
    act(lake)
    state = lake.state()

    assert (Verdict.AGREED, landed) == (state.verdict, state.landed)
    assert "version 2 changed rows by" in state.evidence
    lake.land({0: (3, 4)})
    assert positions({0: 4}) == lake.state().landed.offsets


def test_maintenance_by_others_changes_nothing(lake):
    for epoch in range(3):
        lake.land({0: (epoch, epoch + 1)})
    landed = lake.state().landed
    lake.handle.optimize.compact()
    lake.handle.vacuum(0, dry_run=False, enforce_retention_duration=False)
    lake.handle.create_checkpoint()
    lake.foreign_append()
    state = lake.state()

    assert (Verdict.AGREED, landed) == (state.verdict, state.landed)


def test_s5_transaction_retention_does_not_forget_an_idle_partition(tmp_path):
    lake = Lake(tmp_path)
    properties = {"delta.setTransactionRetentionDuration": "interval 1 hours"}
    lake.create(origin(CHAIN, {0: 0, 1: 77}), properties=properties)
    for epoch in range(5):
        lake.land({0: (epoch, epoch + 1)})
    lake.foreign_append()
    lake.foreign_append()
    lake.clean_up_log()

    assert ["00000000000000000007.checkpoint.parquet", "00000000000000000007.json"] == [
        name for name in lake.log() if name[0] == "0"
    ]
    assert positions({0: 5, 1: 77}) == lake.state().landed.offsets


def test_without_commit_info_the_transactions_alone_give_the_ledger(lake):
    lake.land({0: (0, 2)}, valid_through_ms=1234, held=claim(3))
    before = lake.state().landed
    lake.foreign_append()
    lake.foreign_append()
    lake.clean_up_log()
    state = lake.state()

    assert Verdict.AGREED == state.verdict
    assert "entries after version 1 are missing; the newest file landed is live" == state.evidence
    assert ("", ()) == (state.landed.owner, state.landed.recent)
    assert (before.offsets, 3, "cluster-1", "rules-1", 0, 1234) == (
        state.landed.offsets,
        state.landed.generation,
        state.landed.cluster_id,
        state.landed.rules_hash,
        state.landed.segment,
        state.landed.valid_through_ms,
    )


def test_checkpoints_of_version_2_keep_the_transactions_too(tmp_path):
    lake = Lake(tmp_path)
    lake.create()
    feature = TableFeatures.V2Checkpoint
    lake.handle.alter.add_feature(feature, allow_protocol_versions_increase=True)
    lake.handle.alter.set_table_properties({"delta.checkpointPolicy": "v2"})
    lake.land({0: (0, 2)})
    lake.foreign_append()
    lake.clean_up_log()

    assert "v2Checkpoint" in lake.handle.protocol().writer_features
    assert positions({0: 2}) == lake.state().landed.offsets


def test_after_clean_up_the_next_commit_goes_on(lake):
    lake.land({0: (0, 2)})
    lake.foreign_append()
    lake.clean_up_log()
    state = lake.state()
    assert "the transactions; nothing was rolled back after version 1" == state.evidence

    commit = lake.prepare(state, {0: (2, 4)})
    lake.table.commit(state, commit, retain=25)

    assert landed_after(state.landed, commit) == lake.state().landed
    assert [-1, 0, 1, 2, 3] == lake.ids()
    history = lake.table.history(CHAIN)
    assert (False, 1) == (history.complete, len(history.commits))


def test_a_rollback_hidden_by_clean_up_is_uncertain(lake):
    lake.land({0: (0, 2)})
    lake.land({0: (2, 5)})
    lake.handle.restore(1)
    lake.foreign_append()
    lake.clean_up_log()
    state = lake.state()

    assert Verdict.UNCERTAIN == state.verdict
    assert "entries after version 2 are missing, and so is the newest file landed" == state.evidence


def test_a_log_with_a_hole_is_refused_at_the_first_commit_at_the_latest(lake):
    lake.land({0: (0, 2)})
    lake.foreign_append()
    lake.foreign_append()
    (lake.location / "_delta_log" / "00000000000000000002.json").unlink()
    before = lake.log()
    with pytest.raises(PenstockError):
        lake.land({0: (2, 4)})
    assert before == lake.log()
    with pytest.raises(PenstockError) as caught:
        lake.state()

    assert caught.value.code in ("P430", "P438")


def test_clean_up_before_anything_landed_leaves_the_origins(lake):
    lake.foreign_append()
    lake.foreign_append()
    lake.clean_up_log()
    state = lake.state()

    assert (Verdict.AGREED, positions({0: 0})) == (state.verdict, state.landed.offsets)
    assert "entries after version 0 are missing, and no file was ever landed" == state.evidence


def test_a_checkpoint_is_written_when_enough_versions_came_and_the_handle_opens_from_it(tmp_path):
    lake = Lake(tmp_path)
    lake.create(properties={"delta.checkpointInterval": "3"})
    for epoch in range(7):
        lake.land({0: (epoch, epoch + 1)})
        lake.table.housekeep()

    assert ["00000000000000000002", "00000000000000000005"] == [
        name.partition(".")[0] for name in lake.log() if "checkpoint.parquet" in name
    ]
    assert positions({0: 7}) == lake.state().landed.offsets
    assert DeltaTable(lake.location).version() == 7
