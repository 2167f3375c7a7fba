"""A table that is kept sees what others do to it between our acts, as one opened afresh does."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from deltalake import Field as DeltaField
from tests.integration.delta.lake import CHAIN, Lake, origin

from penstock.connectors.delta.log.commit_file import put_if_absent
from penstock.connectors.delta.log.next_version import require_there
from penstock.connectors.delta.log.reader import Log
from penstock.connectors.delta.log.tail import LogTail
from penstock.core.errors import ConflictError, OutcomeUnknownError, UnavailableError
from penstock.files import FileOptions
from penstock.ports.tables import Verdict
from penstock.testing.prepared import claim, orders, positions, prepared

OTHER = replace(CHAIN, name="shop/lake.b.a")
QUIET = replace(CHAIN, name="shop/lake.b.quiet")


@pytest.fixture
def lake(tmp_path):
    """A kept table with two commits, examined for its chains; its handle is ready."""
    lake = Lake(tmp_path, warm=True)
    lake.create(origin(CHAIN, {0: 0}), origin(QUIET, {0: 0}))
    lake.land({0: (0, 2)})
    lake.land({0: (2, 4)})
    lake.table.housekeep()
    lake.state(OTHER)
    lake.state(QUIET)
    lake.state()
    return lake


def another(lake):
    """The same table as another run opens it."""
    return lake.open().load(lake.name)


def nothing(lake):
    del lake


def append(lake):
    lake.foreign_append()


def append_often(lake):
    for _ in range(70):
        lake.foreign_append()


def commit_of_another_run(lake):
    table = another(lake)
    state = table.state(CHAIN)
    files = lake.write(state, orders({0: (4, 6)}))
    commit = prepared(CHAIN, {0: (4, 6)}, files=files, uuid=state.uuid, held=claim(2))
    table.commit(state, replace(commit, schema_id=state.schema_id), retain=25)


def commit_of_another_chain(lake):
    table = another(lake)
    uuid = table.state(OTHER).uuid
    commit = prepared(OTHER, {0: (7, 8)}, uuid=uuid, origins={0: 7})
    table.commit(table.state(OTHER), commit, retain=25)


def delete_some(lake):
    lake.handle.delete("id = 1")


def restore(lake):
    lake.handle.restore(1)


def restore_and_append(lake):
    lake.handle.restore(1)
    lake.foreign_append()


def append_and_restore_and_append(lake):
    lake.foreign_append()
    lake.handle.restore(1)
    lake.foreign_append()
    lake.foreign_append()


def add_a_column(lake):
    lake.handle.alter.add_columns(DeltaField("more", "long"))


def set_a_property(lake):
    lake.handle.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "1"})


def drop_and_create(lake):
    shutil.rmtree(lake.location)
    lake.create(origin(CHAIN, {0: 1}))


def drop_and_create_further_than_before(lake):
    shutil.rmtree(lake.location)
    lake.create(origin(CHAIN, {0: 1}))
    for _ in range(5):
        lake.foreign_append()


def put_back_an_older_copy(lake):
    (lake.location / "_delta_log" / "00000000000000000002.json").unlink()


def put_back_an_older_copy_and_append(lake):
    put_back_an_older_copy(lake)
    lake.foreign_append()


def clean_up(lake):
    lake.clean_up_log()


def append_and_clean_up(lake):
    for _ in range(3):
        lake.foreign_append()
    lake.clean_up_log()


def append_and_break_off_cleaning_up(lake):
    """The entry of the kept table's version is still there, the later ones are not."""
    for _ in range(3):
        lake.foreign_append()
    version_before = lake.location / "_delta_log" / "00000000000000000002.json"
    copied = version_before.read_bytes()
    lake.clean_up_log()
    version_before.write_bytes(copied)


def compact_and_checkpoint(lake):
    lake.handle.optimize.compact()
    lake.handle.create_checkpoint()


def damage_the_pointer_to_the_checkpoint(lake):
    lake.handle.create_checkpoint()
    (lake.location / "_delta_log" / "_last_checkpoint").write_text("{")
    lake.foreign_append()


ACTS = [
    nothing,
    append,
    append_often,
    commit_of_another_run,
    commit_of_another_chain,
    delete_some,
    restore,
    restore_and_append,
    append_and_restore_and_append,
    add_a_column,
    set_a_property,
    drop_and_create,
    drop_and_create_further_than_before,
    put_back_an_older_copy,
    put_back_an_older_copy_and_append,
    clean_up,
    append_and_clean_up,
    append_and_break_off_cleaning_up,
    compact_and_checkpoint,
    damage_the_pointer_to_the_checkpoint,
]


@pytest.mark.parametrize("chain", [CHAIN, OTHER], ids=["chain", "other"])
@pytest.mark.parametrize("act", ACTS)
def test_a_table_kept_open_reports_what_a_newly_opened_one_reports(lake, act, chain):
    act(lake)
    require_the_same(lake.state(chain), another(lake).state(chain))


@pytest.mark.parametrize("act", [act for act in ACTS if act is not append_often])
@pytest.mark.parametrize("reopens", [False, True], ids=["followed", "reopened"])
def test_the_kept_summary_tells_a_quiet_chain_what_the_log_says(lake, act, reopens):
    act(lake)
    if reopens:
        lake.table._following.forget()
    require_the_same(lake.state(QUIET), another(lake).state(QUIET))


def require_the_same(kept, fresh):
    """What is kept may know more than what is left of a cleaned log: words on the newest commit."""
    if kept.landed and fresh.landed and not fresh.landed.owner:
        assert kept.landed.offsets == fresh.landed.offsets
        fresh = replace(fresh, landed=kept.landed, evidence=kept.evidence)
    assert fresh == kept


@pytest.mark.parametrize("act", ACTS)
def test_a_kept_table_lands_or_refuses_after_what_others_did(lake, act):
    stale = lake.state()
    late = lake.prepare(stale, {0: (4, 6)}, held=claim(3))
    act(lake)
    try:
        lake.table.commit(stale, late, retain=25)
    except (ConflictError, OutcomeUnknownError):
        refused = True
    else:
        refused = False
    landed = another(lake).state(CHAIN).landed

    # Refused is what is examined again in any case; what landed, landed once.
    assert refused == (landed.generation != 3)
    assert [4, 5] == [number for number in lake.ids() if number in (4, 5)] or refused
    assert lake.state().landed.offsets == landed.offsets


def test_whatever_comes_between_is_a_conflict_and_lands_when_examined_again(lake):
    for act in (append, commit_of_another_chain, delete_some, add_a_column):
        state = lake.state()
        start = state.landed.offsets[next(iter(state.landed.offsets))]
        commit = lake.prepare(state, {0: (start, start + 1)}, files=())
        act(lake)
        with pytest.raises(ConflictError):
            lake.table.commit(state, commit, retain=25)
        again = lake.state()
        again_commit = replace(commit, schema_id=again.schema_id)
        assert str(int(again.head) + 1) == lake.table.commit(again, again_commit, retain=25)


def test_a_state_that_was_overtaken_is_never_committed_to(lake):
    overtaken = lake.state()
    ours = lake.prepare(overtaken, {0: (4, 5)}, held=claim(1, "slow"))
    lake.land({0: (4, 6)}, held=claim(1, "quick"))
    lake.state()
    with pytest.raises(ConflictError):
        lake.table.commit(overtaken, ours, retain=25)
    assert [0, 1, 2, 3, 4, 5] == lake.ids()


def test_an_entry_that_the_storage_says_is_there_is_ours_when_it_has_our_bytes(lake):
    """A storage client asks again by itself when an answer is lost; then it finds its own entry."""
    state = lake.state()
    commit = lake.prepare(state, {0: (4, 6)})
    lake.table.commit(state, commit, retain=25)
    entry = lake.location / "_delta_log" / "00000000000000000003.json"
    body = entry.read_bytes()

    assert not put_if_absent(lake.catalog.root, lake.name, 3, body)
    before, tail = state.handle.view, lake.table._following
    require_there(tail, before, body, created=False)
    with pytest.raises(ConflictError, match="version 3 is another commit"):
        require_there(tail, before, body + b" ", created=False)
    with pytest.raises(OutcomeUnknownError, match="the log does not say"):
        require_there(tail, lake.state().handle.view, body, created=True)


def test_a_commit_after_a_log_that_was_replaced_meanwhile_is_not_built_upon(lake):
    """The entry before ours is read back with ours: without it, the log is opened afresh."""
    before = lake.state().handle.view
    lake.land({0: (4, 6)})
    body = (lake.location / "_delta_log" / "00000000000000000003.json").read_bytes()
    (lake.location / "_delta_log" / "00000000000000000002.json").unlink()
    tail = lake.table._following
    tail.forget()
    require_there(tail, before, body, created=True)

    assert tail._view is None


def test_a_state_whose_version_was_cleaned_away_is_a_conflict(lake):
    state = lake.state()
    commit = lake.prepare(state, {0: (4, 6)})
    append_and_clean_up(lake)
    lake.state()
    with pytest.raises(ConflictError):
        lake.table.commit(state, commit, retain=25)


def test_a_dropped_table_is_not_there(lake):
    state = lake.state()
    commit = lake.prepare(state, {0: (4, 6)})
    shutil.rmtree(lake.location)
    with pytest.raises(UnavailableError) as caught:
        lake.state()
    lake.table.housekeep()
    with pytest.raises((ConflictError, UnavailableError)):
        lake.table.commit(state, commit, retain=25)

    assert "P402" == caught.value.code
    assert not lake.location.exists()


def test_a_log_is_opened_once_for_all_writers_and_again_when_the_table_changes(lake):
    following = LogTail(lake.name, lake.catalog.root, FileOptions())
    first = following.view()
    for start in range(4, 10):
        lake.land({0: (start, start + 1)})
        lake.foreign_append()
        lake.table.housekeep()
        following.view()
    second = following.view()
    add_a_column(lake)
    third = following.view()

    assert (2, 14, 15) == (first.version, second.version, third.version)
    assert first.form is second.form
    assert second.form is not third.form
    assert second is not first


def test_a_quiet_chain_does_not_read_what_others_landed_again(lake, monkeypatch):
    """Neither when it was followed, nor when a conflict has the log opened afresh."""
    asked = []
    raw = Log.raw
    monkeypatch.setattr(Log, "raw", lambda log, v: asked.append(v) or raw(log, v))

    def asked_for():
        asked.clear()
        assert Verdict.AGREED == lake.state(QUIET).verdict
        return len(asked)

    for start in range(4, 44):
        lake.land({0: (start, start + 1)}, files=())
    followed = asked_for()
    lake.handle.create_checkpoint()
    lake.table._following.forget()

    assert (2, 2) == (followed, asked_for())


def test_threads_that_share_a_table_land_each_chain_once(lake):
    chains = [replace(CHAIN, name=f"shop/lake.b.{number}") for number in range(3)]

    def land_all(number):
        chain = chains[number]
        for start in range(6):
            first = 1000 * (number + 1) + start
            for _ in range(40):
                state = lake.table.state(chain)
                commit = prepared(
                    chain,
                    {0: (start, start + 1)},
                    files=lake.write(state, orders({0: (first, first + 1)})),
                    uuid=state.uuid,
                    schema_id=state.schema_id,
                    origins={0: 0},
                )
                try:
                    lake.table.commit(state, commit, retain=25)
                    break
                except ConflictError:
                    continue
            lake.table.housekeep()
        return lake.table.state(chain).landed.offsets

    with ThreadPoolExecutor(len(chains)) as pool:
        assert [positions({0: 6})] * 3 == list(pool.map(land_all, range(3)))
    histories = [lake.table.history(chain) for chain in chains]
    assert [6, 6, 6] == [len(history.commits) for history in histories]
    rows = [1000 * number + start for number in (1, 2, 3) for start in range(6)]
    assert [0, 1, 2, 3, *rows] == lake.ids()


def test_a_checkpoint_comes_every_100_versions_or_as_the_table_says(lake):
    def checkpoints():
        return [int(name.partition(".")[0]) for name in lake.log() if "checkpoint.parquet" in name]

    for start in range(4, 104):
        lake.land({0: (start, start + 1)}, files=())
        lake.table.housekeep()
    assert [99] == checkpoints()

    lake.handle.alter.set_table_properties({"delta.checkpointInterval": "5"})
    for start in range(104, 110):
        lake.land({0: (start, start + 1)}, files=())
        lake.table.housekeep()
    assert [99, 104, 109] == checkpoints()


def test_a_rollback_is_reported_however_old_the_kept_view_is(lake):
    for start in range(4, 8):
        lake.land({0: (start, start + 1)})
    lake.handle.restore(2)
    assert Verdict.ROLLED_BACK == lake.state().verdict
    lake.fence(held=claim(2))
    lake.foreign_append()
    old = time.time() - 90 * 24 * 3600
    lake.handle.create_checkpoint()
    for path in (lake.location / "_delta_log").iterdir():
        os.utime(path, (old, old))
    lake.handle.cleanup_metadata()

    assert Verdict.ROLLED_BACK == lake.state().verdict
    assert Verdict.ROLLED_BACK == another(lake).state(CHAIN).verdict
