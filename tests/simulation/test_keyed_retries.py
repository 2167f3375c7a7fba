"""Rejected changes of keyed tables are retried: one lands where it wins, once, whatever dies when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.simulation.keyed_histories import RetriedPlay, RetriedSequencedPlay, broken
from tests.simulation.test_keyed_tables import NAME, gone, put
from tests.simulation.test_keyed_tables import values as rows_of
from tests.story.backend import MemoryGround, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.keyed import KEYED, SEQUENCED, SOFT, KeyedWorld
from tests.story.run import Life
from tests.story.world import ORDERS, QUARANTINE
from tests.unit.app.inspect.test_audit import audited

from penstock.commit import row_deltas
from penstock.commit.row_deltas import Fate, RowDeltaResolver
from penstock.core.crash_points import CrashPoint
from penstock.core.offsets import Offset
from penstock.landing.repair import seek as seeking
from penstock.landing.repair.retry import RetryResult
from penstock.landing.repair.selection import Selection
from penstock.rows.keyed.touched import Retry
from penstock.rows.options import KeyedOptions

ALL = Selection()


def world_of(keyed: KeyedOptions = KEYED) -> KeyedWorld:
    """Make a world whose table is there, with a row of key 0."""
    world = KeyedWorld(MemoryGround(), keyed=keyed, partitions=2)
    world.change("orders", 0, 0, "put", **dict.fromkeys(keyed.sequence, 0))
    world.run()
    return world


def values(world: KeyedWorld) -> dict[int, int]:
    """Return which change the row of each key but 0 is of: the number of it, from 1 on."""
    return {key: number - 1 for key, number in rows_of(world).items() if key}


def bad(world: KeyedWorld, key: int, op: str = "put", *, partition: int = 0, **fields: int) -> None:
    """Send a change that is rejected, until the rules leave its field out."""
    world.change("orders", partition, key, op, colour=1, **fields)


def retried(
    world: KeyedWorld, choice: Selection = ALL, *, insert: bool = False, **given: object
) -> Life:
    if "fits" not in world.rulebook:
        operations = {**world.keyed.operations, "drop": "delete"}
        keyed = replace(world.keyed, operations=operations)
        world.change_rules("fits", columns="drop_value", keyed=keyed)
    mode = Retry.INSERTS if insert else Retry.REPLACES
    return world.life(**given).close(lambda closer: closer.retry(choice, mode), ORDERS)


@pytest.fixture
def world() -> KeyedWorld:
    """Key 1 has an older row than its rejected change, key 2 a later one, 3 was deleted since."""
    world = world_of()
    put(world, 1, 2, 3)
    bad(world, 1)
    bad(world, 2)
    bad(world, 3)
    put(world, 2)
    gone(world, 3)
    world.run()
    assert {1: 1, 2: 7} == values(world)
    assert 3 == len(world.rejects())
    return world


def put_back(world: KeyedWorld, offset: int) -> None:
    """Have changes from an offset on applied again."""
    wanted = {("orders", 0): offset}
    life = world.life().close(
        lambda closer: seeking.seek(closer.held, ORDERS, wanted, closer.context, reapply=True),
        ORDERS,
    )
    assert life.error is None, life.error


def counted(world: KeyedWorld) -> tuple[str, ...]:
    """Count the rows against the log; return what was not compared."""
    found = audited(world, ORDERS)
    assert () == tuple(found.breaks)
    assert found.row_count is not None
    return found.row_count.not_compared


def exact(world: KeyedWorld) -> None:
    assert {1: 4, 2: 7} == values(world)
    assert () == counted(world)
    assert 2 == len(world.rejects())
    assert [] == world.breaks()


def test_a_rejected_change_lands_where_the_row_of_its_key_is_older(world: KeyedWorld) -> None:
    life = retried(world)

    assert RetryResult({ORDERS: 1}, {}, 0, {"loses": 1, "absent": 1}) == life.changed
    exact(world)
    assert RetryResult({}, {}, 0, {"loses": 1, "absent": 1}) == retried(world).changed
    put(world, 1)
    world.run()
    assert {1: 9, 2: 7} == values(world)
    assert [] == world.breaks()


def test_a_deleted_key_gets_a_row_only_where_that_is_asked_for(world: KeyedWorld) -> None:
    assert {ORDERS: 2} == retried(world, insert=True).changed.landed
    assert {1: 4, 2: 7, 3: 6} == values(world)
    assert ("1 deleted key with the row of a record that was retried",) == counted(world)

    gone(world, 3)
    world.run()
    assert {1: 4, 2: 7} == values(world)
    assert [] == world.breaks()


def test_a_rejected_delete_takes_an_older_row_away_and_no_later_one() -> None:
    world = world_of()
    put(world, 1, 2)
    for key in (1, 2, 3):
        bad(world, key, "drop")
    put(world, 2)
    world.run()

    assert {ORDERS: 2} == retried(world).changed.landed
    assert {2: 6} == values(world)
    assert [] == world.breaks()


def test_of_several_rejected_changes_of_a_key_the_last_one_lands() -> None:
    world = world_of()
    put(world, 1)
    bad(world, 1)
    bad(world, 1, "drop")
    bad(world, 1)
    world.run()
    topic = world.ground.topic("orders")
    assert {ORDERS: 1} == retried(world, Selection(spot=(topic, 0, 2))).changed.landed
    assert {1: 2} == values(world)

    assert {ORDERS: 2} == retried(world).changed.landed
    assert {1: 4} == values(world)
    assert [] == world.breaks()


def test_nothing_lands_over_a_row_of_another_partition() -> None:
    world = world_of()
    put(world, 1)
    bad(world, 1, partition=1)
    world.run()

    assert {"undecided": 1} == retried(world).changed.withheld
    assert {1: 1} == values(world)


def test_nothing_lands_of_a_key_that_was_rejected_in_two_partitions() -> None:
    world = world_of()
    put(world, 1)
    bad(world, 1)
    bad(world, 1, partition=1)
    bad(world, 2)
    world.run()

    assert {"undecided": 2, "absent": 1} == retried(world).changed.withheld
    assert {1: 1} == values(world)


def test_a_sequence_decides_between_partitions() -> None:
    world = world_of(SEQUENCED)
    for key, own, theirs in ((1, 5, 4), (2, 5, 6), (3, 5, 5)):
        world.change("orders", 0, key, "put", s=own)
        bad(world, key, partition=1, s=theirs)
    world.run()

    assert {"loses": 1, "undecided": 1} == retried(world).changed.withheld
    assert {1: 1, 2: 4, 3: 5} == values(world)
    counted(world)


def test_a_row_of_a_deleted_key_says_that_the_delete_is_later() -> None:
    world = world_of(SOFT)
    bad(world, 1)
    gone(world, 1)
    bad(world, 1)
    world.run()
    topic = world.ground.topic("orders")

    life = retried(world, Selection(spot=(topic, 0, 1)), insert=True)
    assert {"loses": 1} == life.changed.withheld
    assert {ORDERS: 1} == retried(world, Selection(spot=(topic, 0, 3))).changed.landed
    assert [] == world.breaks()


def test_nothing_is_decided_by_offsets_while_changes_are_applied_again(world: KeyedWorld) -> None:
    put_back(world, 1)

    assert {"undecided": 2, "absent": 1} == retried(world).changed.withheld
    world.run()
    assert {ORDERS: 1} == retried(world).changed.landed
    exact(world)


def test_a_retried_record_is_open_again_where_changes_before_it_are_applied_again() -> None:
    world = world_of()
    put(world, 1, 2)
    bad(world, 1)
    world.run()
    retried(world)
    assert {1: 3, 2: 2} == values(world)
    put_back(world, 1)
    assert 1 == len(world.rejects())
    world.run()
    assert {1: 1, 2: 2} == values(world)
    assert [] == world.breaks()

    assert {ORDERS: 1} == retried(world).changed.landed
    assert {1: 3, 2: 2} == values(world)
    assert [] == world.breaks()


POINTS = (
    *(CrashPoint.FILE_WRITTEN, CrashPoint.FILE_CLOSED, CrashPoint.PREPARE_BEFORE),
    *(CrashPoint.PREPARE_AFTER, CrashPoint.QUARANTINE_BEFORE, CrashPoint.QUARANTINE_AFTER),
    *(CrashPoint.RESOLVE_BEFORE, CrashPoint.RESOLVE_AFTER, CrashPoint.COMMIT_BEFORE),
    *(CrashPoint.COMMIT_AFTER, CrashPoint.READ_BACK),
    *(CrashPoint.SETTLE_BEFORE, CrashPoint.SETTLE_AFTER),
)


def again(keyed: KeyedOptions = KEYED) -> KeyedWorld:
    """One rejected change wins, one loses."""
    world = world_of(keyed)
    put(world, 1, 2)
    bad(world, 1)
    bad(world, 2)
    put(world, 2)
    world.run()
    return world


@pytest.mark.parametrize(
    ("then", "lost"), [("retry", True), ("run", False), ("delete", True), ("compact", False)]
)
def test_a_retry_that_is_killed_anywhere_lands_each_change_once(then: str, lost: bool) -> None:
    points = retried(again()).points
    plans = [f"{each}:{n + 1}" for each in POINTS for n in range(points.count(each))]
    assert {*POINTS} == {CrashPoint(plan.partition(":")[0]) for plan in plans}
    for plan in plans:
        world = again()
        assert retried(world, crash=plan).crashed, plan
        if lost:
            world.ground.lose_store("here")
        if then == "run":
            put(world, 3)
            world.run()
        if then == "delete":
            gone(world, 1)
            world.run()
        if then == "compact":
            world.ground.warehouse.foreign_compaction(NAME)
        done = retried(world)
        assert done.error is None, (plan, done.error)
        wanted = {"run": {1: 3, 2: 5, 3: 6}, "delete": {2: 5}}.get(then, {1: 3, 2: 5})
        assert wanted == values(world), plan
        assert [] == world.breaks(), plan


@pytest.mark.parametrize("table", [ORDERS, QUARANTINE])
@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.CONFLICT])
def test_a_retry_whose_answer_is_lost_lands_each_change_once(table: str, fault: Fault) -> None:
    world = again()
    world.faults.queue(catalog_name(table), fault)
    retried(world)

    assert {1: 3, 2: 5} == values(world)
    assert [] == world.breaks()


def test_what_others_do_before_the_commit_is_looked_at_again() -> None:
    """The resolution is in quarantine by then: the row goes, and the record is open again."""
    world = again()
    acts = [lambda: world.ground.warehouse.foreign_delete(NAME, lambda row: row["n"] == 1)]
    world.faults.before_commit(NAME, lambda: acts and acts.pop()())

    assert "P491" == retried(world).code
    assert {2: 5} == values(world)
    assert {"loses": 2} != retried(world).changed.withheld
    assert {2: 5} == values(world)
    assert 2 == len(world.rejects())
    assert {ORDERS: 1} == retried(world, insert=True).changed.landed
    assert {1: 3, 2: 5} == values(world)


def test_rows_may_be_inserted_by_key_only_in_keyed_tables() -> None:
    world = KeyedWorld(MemoryGround())
    world.appended.add(ORDERS)
    put(world, 1)
    world.run()

    assert "P267" == retried(world, insert=True).code


@pytest.mark.parametrize(
    ("appended", "reapply", "code"),
    [(False, False, "P264"), (True, True, "P268"), (True, False, "P479")],
)
def test_rows_are_put_back_only_by_key_and_where_a_person_says_so(
    appended: bool, reapply: bool, code: str
) -> None:
    world = KeyedWorld(MemoryGround())
    world.appended |= {ORDERS} if appended else set()
    put(world, 1, 1)
    world.run()
    wanted = {("orders", 0): Offset(1)}

    life = world.life().change(
        lambda held: seeking.plan_seek(
            held.settings, held.environment, ORDERS, wanted, reapply=reapply
        )
    )
    assert code == life.code


@pytest.mark.parametrize("play", [RetriedPlay, RetriedSequencedPlay])
def test_the_rows_are_the_fold_of_what_was_retried_whatever_happens(play: type) -> None:
    hit: Counter[str] = Counter()
    texts = broken(range(15), hit, play)

    assert not texts, "\n\n".join(texts)
    assert hit["retried: won"] > 10
    assert hit["retried: withheld"] > 5


def test_histories_go_wrong_where_a_retry_is_landed_whatever_row_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KM12 of the specification."""
    resolve: Callable[..., object] = RowDeltaResolver.resolve

    def without_witness(self: RowDeltaResolver, *given: object) -> object:
        found = resolve(self, *given)
        if self._touched.retry:
            found.fates[:] = Fate.WINS
        return found

    monkeypatch.setattr(RowDeltaResolver, "resolve", without_witness)
    beyond = RowDeltaResolver._beyond

    def never(self: RowDeltaResolver, hits: object, *given: object, **named: object) -> object:
        found = beyond(self, hits, *given, **named)
        return found & False if self._touched.retry else found

    monkeypatch.setattr(row_deltas.RowDeltaResolver, "_beyond", never)

    assert len(broken(range(12), play=RetriedPlay)) > 1
