"""Refused records are retried and dropped: each lands once or stays refused, whatever dies when."""

import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.world import ORDERS, PIPELINE, QUARANTINE, World, either

from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.landing.repair import replay, seek
from penstock.landing.repair.retry import RetryResult
from penstock.landing.repair.selection import Selection
from penstock.testing.sent import Sent

pytestmark = pytest.mark.usefixtures("portion_bytes")
ALL = Selection()
BAD, LATER = 3, 4


def closed(world, act=lambda closer: closer.retry(ALL), name=ORDERS, **given):
    life = world.life(**given)
    return life.close(act, name)


@pytest.fixture
def world():
    """Three records were refused for a field that the table has no column for; it may be left out
    now, and one is still no JSON."""
    world = World(MemoryGround())
    world.send("orders", 5)
    world.run()
    world.send("orders", BAD, colour="red")
    world.send_raw("orders", b"no json")
    world.send("orders", 2)
    world.run()
    assert BAD + 1 == len(world.rejects())
    world.change_rules("rules-2", columns="drop_value")
    return world


def exact(world, refused=1):
    """Assert that every record is once, and say that so many are still refused."""
    assert [] == world.breaks(fitting=either)
    assert refused == len(world.rejects())


def test_a_retry_lands_what_fits_by_now_and_leaves_the_rest(world):
    life = closed(world)

    assert RetryResult({ORDERS: BAD}, {"P302": 1}) == life.changed
    exact(world)
    assert RetryResult({}, {"P302": 1}) == closed(world).changed
    world.run()
    exact(world)


def test_only_what_is_chosen_is_retried(world):
    topic = world.ground.topic("orders")
    life = closed(world, lambda closer: closer.retry(Selection(spot=(topic, 0, 6))))
    assert RetryResult({ORDERS: 1}) == life.changed
    exact(world, refused=3)

    assert (
        RetryResult({})
        == closed(world, lambda closer: closer.retry(Selection(codes=("P301",)))).changed
    )
    assert (
        RetryResult({ORDERS: 2})
        == closed(world, lambda closer: closer.retry(Selection(codes=("P361",)))).changed
    )
    exact(world)


def test_dropped_records_are_given_up_and_never_come_back(world):
    assert BAD + 1 == closed(world, lambda closer: closer.drop(ALL)).changed
    assert RetryResult({}) == closed(world).changed
    world.run()
    exact(world, refused=BAD + 1)


def test_a_retry_whose_files_were_taken_away_is_to_be_done_once_more(world):
    warehouse = world.table()._warehouse

    def tidy():
        for commit in world.pending():
            for file in commit.files:
                warehouse.remove_file(file.path)

    life = world.life().at(CrashPoint.PREPARE_AFTER, tidy, passing=2)
    assert "P491" == life.close(lambda closer: closer.retry(ALL), ORDERS).code
    assert RetryResult({ORDERS: BAD}, {"P302": 1}, finished=BAD) == closed(world).changed
    exact(world)


POINTS = (
    *(
        CrashPoint.CLAIM_BEFORE,
        CrashPoint.CLAIM_AFTER,
        CrashPoint.FILE_OPENED,
        CrashPoint.FILE_WRITTEN,
    ),
    *(
        CrashPoint.FILE_CLOSED,
        CrashPoint.PREPARE_BEFORE,
        CrashPoint.PREPARE_AFTER,
        CrashPoint.QUARANTINE_BEFORE,
    ),
    *(
        CrashPoint.QUARANTINE_AFTER,
        CrashPoint.COMMIT_BEFORE,
        CrashPoint.COMMIT_AFTER,
        CrashPoint.READ_BACK,
    ),
    *(CrashPoint.SETTLE_BEFORE, CrashPoint.SETTLE_AFTER),
)


def passings(world_of):
    """Return how often a retry passes each point."""
    world = world_of()
    points = closed(world).points
    return [f"{point}:{n + 1}" for point in POINTS for n in range(points.count(point))]


@pytest.mark.parametrize("lost", [False, True], ids=["store kept", "store lost"])
@pytest.mark.parametrize("next_life", ["retry", "run"])
def test_a_retry_that_is_killed_anywhere_lands_each_record_once(world, lost, next_life):
    def copied():
        fresh = World(MemoryGround())
        fresh.send("orders", 5)
        fresh.run()
        fresh.send("orders", BAD, colour="red")
        fresh.send_raw("orders", b"no json")
        fresh.run()
        fresh.change_rules("rules-2", columns="drop_value")
        return fresh

    plans = passings(copied)
    assert {*POINTS} == {CrashPoint(plan.partition(":")[0]) for plan in plans}
    for plan in plans:
        fresh = copied()
        assert closed(fresh, crash=plan).crashed, plan
        if lost:
            fresh.ground.lose_store("here")
        if next_life == "run":
            fresh.send("orders", LATER)
            fresh.run()
        again = closed(fresh)
        assert again.error is None, (plan, again.error)
        assert [] == fresh.breaks(fitting=either), plan
        assert 1 == len(fresh.rejects()), plan


@pytest.mark.parametrize("table", [ORDERS, QUARANTINE])
@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.CONFLICT])
def test_a_retry_whose_answer_is_lost_lands_each_record_once(world, table, fault):
    world.faults.queue(catalog_name(table), fault)
    closed(world)
    exact(world)


@pytest.mark.parametrize("table", [ORDERS, QUARANTINE])
@pytest.mark.parametrize("arrives", ["before", "meanwhile", "after"])
def test_a_commit_that_arrives_late_lands_nothing_twice(world, table, arrives):
    """It is sent, the process dies before it is answered, and its store is lost."""
    world.faults.queue(catalog_name(table), Fault.CRASH_DELAYED)
    assert closed(world).crashed
    world.ground.lose_store("here")
    if arrives == "before":
        world.faults.release()
    if arrives == "meanwhile":
        world.faults.before_commit(catalog_name(table), world.faults.release)
    closed(world)
    world.faults.release()
    closed(world)
    exact(world)


def test_what_fits_no_more_when_a_retry_is_finished_is_open_again(world):
    closed(world, crash="quarantine.after:1")
    world.ground.lose_store("here")
    world.change_rules("rules-3", columns="quarantine")
    closed(world)
    exact(world, refused=BAD + 1)

    world.change_rules("rules-4", columns="drop_value")
    assert RetryResult({ORDERS: BAD}, {"P302": 1}) == closed(world).changed
    exact(world)


def test_a_retry_leaves_the_rules_that_count_for_the_topics_as_they_are(world):
    closed(world)

    assert "rules-1" == world.landed().rules_hash


def test_two_retries_from_two_hosts_land_each_record_once(world):
    first = world.life(host="there")
    first.at(
        CrashPoint.QUARANTINE_BEFORE,
        lambda: closed(world),
    )
    first.close(lambda closer: closer.retry(ALL), ORDERS)
    closed(world)
    world.life(host="there").close(lambda closer: closer.retry(ALL), ORDERS)
    exact(world)


def test_a_replay_lands_what_a_retry_had_landed_and_leaves_what_is_refused(world):
    closed(world)
    world.life().change(replay_all)

    exact(world)
    assert 5 + BAD + 2 == len(world.rows())


def replay_all(held):
    track = held.settle_pending(ORDERS)
    bounds = held.environment.log.bounds(held.environment.log.partitions())
    topic = held.environment.log.partitions()[0].topic
    planned = replay.plan_replay(track, {(topic, 0): None}, bounds)
    return replay.land_again(held, track, planned)


def test_retried_rows_that_a_rollback_took_land_by_the_next_retry_after_a_seek(world):
    before = head(world)
    closed(world)
    world.ground.roll_back(catalog_name(ORDERS), before)
    assert {ORDERS: "P455"} == world.run().parked
    closed(world, seek_back)
    world.run()
    assert BAD + 1 == len(world.rejects())
    assert RetryResult({ORDERS: BAD}, {"P302": 1}) == closed(world).changed

    exact(world)
    assert RetryResult({}, {"P302": 1}) == closed(world).changed


def head(world):
    return world.table().state(Chain(PIPELINE, ORDERS)).head


def seek_back(closer):
    return seek.seek(closer.held, ORDERS, {}, closer.context)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_rejected_record_keeps_its_headers_where_that_is_asked_for(world, keeps):
    """What reads no headers of what lands keeps none of what does not."""
    sent = Sent(b"no json", headers=(("trace", b"\x00"), ("trace", None)))
    world.ground.send(world.ground.topic("orders"), 0, [sent])
    world.run(rejects_keep_headers=keeps)

    table = world.catalog().load(catalog_name(QUARANTINE))
    found = table.read_quarantine(Chain(f"{PIPELINE}/{ORDERS}", QUARANTINE), ("headers",))
    headers = [row["headers"] for each in found for row in each.to_pylist()]
    own = [{"key": "trace", "value": b"\x00"}, {"key": "trace", "value": None}]
    assert [own if keeps else None] == headers[-1:]
