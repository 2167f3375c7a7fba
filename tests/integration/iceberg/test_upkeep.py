"""What expires in an Iceberg table and what is swept, who may read what then, what is refused."""

import shutil

import pyarrow as pa
import pytest
from tests.integration.iceberg.conftest import CHAIN
from tests.integration.maintaining import maintained, maintenance, swept, upkept

from penstock.commit.expiring import expire
from penstock.commit.sweeping import Sweeping
from penstock.connectors.iceberg import connector
from penstock.connectors.memory.store import MemoryStore
from penstock.core.commits import Chain
from penstock.core.errors import ConflictError, DecisionNeededError, InvalidError
from penstock.core.sweeps import name_of
from penstock.ports.tables import Verdict
from penstock.testing.contracts.table_fixture import batch_of, foreign_row
from penstock.testing.contracts.table_upkeep import LateClock
from penstock.testing.prepared import orders, origin

LATE_MS = LateClock().now_ms()


def expiry(table, now_ms=LATE_MS):
    return table.upkeep(table.state(CHAIN)).expiry(now_ms)


def filled(lake, **given):
    """Return a table of four commits, and their snapshots."""
    table = lake.create(**given)
    return table, [lake.land(table, {0: (at, at + 2)}) for at in (0, 2, 4, 6)]


def test_tags_branches_and_the_newest_stay_each_with_its_reason(lake):
    table, (first, second, third, fourth) = filled(lake)
    foreign = lake.foreign()
    foreign.manage_snapshots().create_tag(int(first), "audit").commit()
    foreign.manage_snapshots().create_branch(int(second), "side", min_snapshots_to_keep=1).commit()
    found = expiry(table)

    assert [third] == [each.id for each in found.expired]
    assert {fourth: "the head of main", second: "the head of side", first: "tag audit"} == {
        each.id: each.reason for each in found.kept
    }


def test_what_the_table_says_of_its_history_is_kept(lake):
    table, snapshots = filled(lake, properties={"history.expire.min-snapshots-to-keep": "3"})

    assert snapshots[:1] == [each.id for each in expiry(table).expired]
    lake.foreign().transaction().set_properties(
        {"history.expire.max-snapshot-age-ms": str(2 * LATE_MS)}
    ).commit_transaction()
    assert () == expiry(table).expired
    assert {"on main, and too young"} <= {each.reason for each in expiry(table).kept}


def test_all_from_the_head_to_the_snapshot_that_vouches_stays(lake):
    table, snapshots = filled(lake)
    for _ in range(2):
        lake.foreign_append()
    found = expiry(table)
    reasons = [each.reason for each in found.kept]
    upkept(CHAIN, table)

    assert snapshots[:-1] == [each.id for each in found.expired]
    assert ["the head of main", *["the ledgers of main are judged by it"] * 2] == reasons
    state = table.state(CHAIN)
    assert (Verdict.AGREED, True) == (state.verdict, snapshots[-1] in state.evidence)


def test_a_tag_that_moves_meanwhile_keeps_its_snapshot(lake):
    table, (first, second, *_) = filled(lake)
    lake.foreign().manage_snapshots().create_tag(int(first), "audit").commit()
    state = table.state(CHAIN)
    found = table.upkeep(state).expiry(LATE_MS)
    lake.foreign().manage_snapshots().remove_tag("audit").commit()
    lake.foreign().manage_snapshots().create_tag(int(second), "audit").commit()

    assert second in {each.id for each in found.expired}
    with pytest.raises(ConflictError):
        table.upkeep(state).expire(found)
    assert int(second) in {each.snapshot_id for each in lake.foreign().snapshots()}


def test_a_chain_of_another_pipeline_that_was_rolled_back_keeps_everything(lake):
    other = Chain("other", CHAIN.table)
    table = lake.create(ledgers=[origin(CHAIN, {0: 0}), origin(other, {0: 0})])
    mine = lake.land(table, {0: (0, 2)})
    state = table.state(other)
    table.commit(state, lake.append(state, {0: (0, 2)}, chain=other), retain=25)
    lake.roll_back(mine)

    with pytest.raises(DecisionNeededError) as raised:
        expiry(table)
    assert "P846" == raised.value.code


def test_where_garbage_is_to_stay_nothing_expires_and_nothing_is_swept(lake):
    table, _ = filled(lake, properties={"gc.enabled": "false"})

    assert ((), "gc.enabled is false") == (expiry(table).expired, expiry(table).unwanted)
    with pytest.raises(InvalidError) as raised:
        upkept(CHAIN, table)
    assert "P892" == raised.value.code


def test_a_table_of_the_first_format_is_not_swept(lake):
    table, _ = filled(lake, properties={"format-version": "1"})

    assert "format version 1" in expiry(table).unwanted
    with pytest.raises(InvalidError) as raised:
        upkept(CHAIN, table)
    assert "P892" == raised.value.code


def test_where_a_catalog_leaves_out_snapshots_nothing_is_swept(lake):
    filled(lake)
    found = lake.open(**{"snapshot-loading-mode": "refs"}).load("bronze.orders")

    with pytest.raises(InvalidError) as raised:
        swept(CHAIN, found)
    assert "P892" == raised.value.code


@pytest.mark.parametrize("below", ["metadata", "data/other/metadata"])
def test_a_directory_with_another_tables_files_is_not_swept(lake, below):
    table, _ = filled(lake)
    other = lake.create(name="bronze.items")
    lake.land(other, {0: (0, 2)})
    place = lake.place / "warehouse/bronze/orders" / below
    place.mkdir(parents=True, exist_ok=True)
    for each in (lake.place / "warehouse/bronze/items/metadata").glob("*.json"):
        shutil.copy(each, place)

    with pytest.raises(InvalidError) as raised:
        upkept(CHAIN, table)
    assert "P891" == raised.value.code


def test_where_data_lie_beside_those_of_other_tables_nothing_is_swept(lake):
    """What one table does not name there may be all that another one has."""
    shared = {"write.data.path": f"file://{lake.place}/shared"}
    chain = Chain("shop", "lake.bronze.items")
    table, other = (
        lake.create(name=name, properties=shared, ledgers=[origin(each, {0: 0})])
        for name, each in (("bronze.orders", CHAIN), ("bronze.items", chain))
    )
    lake.land(table, {0: (0, 2)})
    state = other.state(chain)
    other.commit(state, lake.append(state, {0: (0, 2)}, chain=chain), retain=25)
    codes = set()
    for at in (2, 4):
        with pytest.raises(InvalidError) as raised:
            swept(CHAIN, table)
        codes.add(raised.value.code)
        lake.land(table, {0: (at, at + 2)})

    assert {"P897"} == codes
    assert [0, 1] == lake.ids("bronze.items")


@pytest.mark.parametrize("path", ["", "/data/of/it"])
def test_data_below_the_tables_own_location_are_swept(lake, path):
    place = f"file://{lake.place}/warehouse/bronze/orders{path}"
    table, _ = filled(lake, properties={"write.data.path": place})
    state = table.state(CHAIN)
    [orphan] = lake.write(state, batch_of(state.schema, orders({0: (90, 92)})), "shop-1-0-0c0ffee0")
    swept(CHAIN, table)
    lake.land(table, {0: (8, 10)})

    assert name_of(orphan.path) in swept(CHAIN, table)
    assert [*range(10)] == lake.ids()


def test_a_table_whose_catalog_was_restored_from_a_backup_is_not_swept(lake):
    """What the catalog does not name was committed after the backup; another catalog may have it."""
    table, _ = filled(lake)
    backup = lake.place / "backup.db"
    shutil.copy(lake.place / "catalog.db", backup)
    for at in (8, 10, 12):
        lake.land(table, {0: (at, at + 2)})
    former = lake.open(uri=f"sqlite:///{backup}").load("bronze.orders")
    swept(CHAIN, table)
    with pytest.raises(InvalidError) as raised:
        swept(CHAIN, former)

    assert "P896" == raised.value.code
    assert "catalog is behind what was committed" in raised.value.message
    assert [*range(14)] == lake.ids()


def test_commits_between_a_look_and_the_listing_do_not_keep_a_table_from_being_swept(lake):
    table, _ = filled(lake)
    upkeep = table.upkeep(table.state(CHAIN))
    for at in (8, 10, 12):
        lake.land(table, {0: (at, at + 2)})

    assert [*upkeep.storage().listed()]


def test_a_sweep_that_may_not_delete_is_not_planned(lake):
    table, _ = filled(lake)
    with lake.foreign().transaction() as transaction:
        ledger = lake.foreign().properties["penstock.ledger.shop.main"]
        transaction.set_properties({"penstock.ledger.other.side": ledger})
    with pytest.raises(InvalidError) as raised:
        Sweeping(maintenance(CHAIN, table), MemoryStore()).plan()

    assert "P892" == raised.value.code
    assert "several branches: main, side" in raised.value.message


def test_every_kept_snapshot_is_read_to_its_end(lake):
    table, (_, second, *_) = filled(lake)
    lake.foreign().manage_snapshots().create_tag(int(second), "audit").commit()
    staged = lake.land(table, {1: (0, 2)})
    lake.foreign().manage_snapshots().create_branch(int(staged), "staged").commit()

    def read():
        return {
            each.snapshot_id: sorted(
                lake.foreign().scan(snapshot_id=each.snapshot_id).to_arrow()["id"].to_pylist()
            )
            for each in lake.foreign().snapshots()
        }

    before = read()
    expired, _ = upkept(CHAIN, table)
    lake.land(table, {1: (2, 4)})
    _, deleted = upkept(CHAIN, table)
    after = read()

    assert (True, True) == (expired > 0, len(deleted) > 0)
    assert {int(second), int(staged)} < after.keys()
    assert after.items() >= {each: before[each] for each in after.keys() & before.keys()}.items()


def test_files_of_a_snapshot_that_no_branch_has_stay_for_who_publishes_it(lake):
    """Write, audit, publish: a snapshot is in the metadata, and no reference has it."""
    table, snapshots = filled(lake)
    foreign = lake.foreign()
    foreign.manage_snapshots().create_branch(int(snapshots[-1]), "staged").commit()
    rows = pa.Table.from_pylist([foreign_row()], schema=foreign.schema().as_arrow())
    lake.foreign().append(rows, branch="staged")
    staged = lake.foreign().metadata.snapshot_by_name("staged").snapshot_id
    lake.foreign().manage_snapshots().remove_branch("staged").commit()
    for at in (0, 2, 4):
        lake.land(table, {1: (at, at + 2)})
        swept(CHAIN, table)

    found = lake.foreign().scan(snapshot_id=staged).to_arrow()["id"].to_pylist()
    assert [-1, *range(8)] == sorted(found)


def test_a_file_that_was_noted_and_is_named_again_stays(lake):
    table, _ = filled(lake)
    state = table.state(CHAIN)
    [orphan] = lake.write(state, batch_of(state.schema, orders({0: (90, 92)})))
    upkept(CHAIN, table)
    lake.foreign().add_files([orphan.path])
    lake.land(table, {0: (8, 10)})
    _, deleted = upkept(CHAIN, table)

    assert name_of(orphan.path) not in deleted
    assert [*range(10), 90, 91] == lake.ids()


def test_a_query_that_began_before_its_snapshot_expired_reads_to_its_end(lake):
    table, (first, *_) = filled(lake)
    query = lake.foreign().scan(snapshot_id=int(first))
    assert 1 == maintained(CHAIN, table, connector).groups
    assert expire(maintenance(CHAIN, table))
    for at in (0, 2, 4):
        lake.land(table, {1: (at, at + 2)})
        swept(CHAIN, table, grace_ms=3_600_000)

    assert [0, 1] == query.to_arrow()["id"].to_pylist()
    lake.land(table, {1: (6, 8)})
    assert swept(CHAIN, table)
    with pytest.raises(FileNotFoundError):
        query.to_arrow()
