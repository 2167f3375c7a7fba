"""Failures from outside that a publication outlives: clocks, disks of brokers, rows that kill."""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from tests.story.clock import START_MS, ManualClock
from tests.story.publishing import FROM, INTO, Act, PublishingWorld, by_library, live
from tests.story.publishing_rows import RowsWorld

from penstock.app.inspect.publications import view_of
from penstock.connectors.memory.log import MemoryReader
from penstock.core.errors import DecisionNeededError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.publication_events import TransactionGivenUp
from penstock.core.resuming import Accepted
from penstock.ports.producers import PackedBatch, Refused, Term
from penstock.ports.sources import Stretch
from penstock.publishing.messages import Encoding, SendJob, job_from_json
from penstock.publishing.poison_search import FOUND_MAX
from penstock.publishing.publisher import AGAIN_SECONDS
from penstock.publishing.share_messages import is_share, share_from_json
from penstock.publishing.topic_source import TopicReader
from penstock.publishing.worker import SendTools

DISK_FULL = Refused(56, "the log directory is offline: KAFKA_STORAGE_ERROR")
SKEWS_MS = (-600_000, 0, 600_000)


@pytest.fixture
def world() -> PublishingWorld:
    return PublishingWorld()


@pytest.mark.parametrize("seed", range(10))
def test_pb22_clocks_that_are_ten_minutes_off_double_and_lose_nothing(seed):
    chance, world = random.Random(seed), RowsWorld(rows_max=3)
    for round_number in range(4):
        world.table.rows += [(chance.choice("abc"), f"{round_number}|{n}") for n in range(5)]
        world.clock = ManualClock(START_MS + chance.choice(SKEWS_MS))
        live(world, chance)
        assert world.expected(world.reached()) == world.found()
    world.clock = ManualClock(START_MS)
    assert world.run().error is None

    assert world.reached() == len(world.table.rows)
    assert world.expected(world.reached()) == world.found()


class FullDisk:
    """A sender whose brokers have no room."""

    def send(
        self,
        transactional_id: str,
        term: Term,
        batches: Mapping[TopicPartition, Sequence[PackedBatch]],
    ) -> Refused:
        """Refuse, as a broker whose disk is full does."""
        del transactional_id, term, batches
        return DISK_FULL


@dataclass(slots=True)
class FullWorld(RowsWorld):
    """Its brokers' disks are full, until somebody makes room."""

    is_full: bool = True

    def tools(self, job: SendJob) -> SendTools:
        """Return what sends."""
        tools = RowsWorld.tools(self, job)
        return replace(tools, sender=FullDisk()) if self.is_full else tools


def test_pb22_a_disk_that_is_full_ends_with_nothing_visible_and_is_gone_on_from() -> None:
    world = FullWorld()
    world.table.rows = [("a", "1"), ("b", "2")]
    error = world.run().error

    assert isinstance(error, UnavailableError)
    assert ("P814", 75) == (error.code, error.exit_code)
    assert "KAFKA_STORAGE_ERROR" in error.message
    assert world.found() == {}

    world.is_full = False
    assert world.run().error is None
    assert world.expected(2) == world.found()


def died() -> UnavailableError:
    return UnavailableError("a Python worker died", code="P606", hint="")


def stretches_of(text: str) -> Sequence[Stretch]:
    """Return what a task reads."""
    if is_share(text):
        return share_from_json(text).stretches
    work = job_from_json(text).work
    return work.stretches if isinstance(work, Encoding) else [each.stretch for each in work]


@dataclass(slots=True)
class KillingWorld(RowsWorld):
    """Its worker dies of a row, and of more rows than its memory takes."""

    rows_taken: int = 1000

    def _done(self, act: Act, text: str) -> str:
        read = [each for each in stretches_of(text) if not each.is_poison]
        if sum(each.rows for each in read) > self.rows_taken:
            raise died()
        for stretch in read:
            for rows in self.table.read(stretch, deadline=0.0):
                if "kills" in rows.rows.column("v").to_pylist():
                    raise died()
        return RowsWorld._done(self, act, text)

    def deaths(self) -> int:
        """Count the transactions that were given up."""
        return sum(isinstance(each, TransactionGivenUp) for each in self.events)


def killing(rows: int, *killers: int) -> KillingWorld:
    """Return a world with rows of which some kill."""
    world = KillingWorld(rows_max=1000)
    world.table.rows = [("a", str(number)) for number in range(rows)]
    for number in killers:
        world.table.rows[number] = ("a", "kills")
    return world


def test_pb16_a_row_that_kills_its_worker_is_found_and_rejected() -> None:
    world = killing(512, 300)
    world.reject()

    assert world.run().error is None
    (reject,) = world.rejected()
    assert ("P343", {"row": 301}) == (reject["code"], reject["before"])
    world.table.rows[300] = ("a", "left out")
    assert world.expected(512) == world.found()
    assert 11 >= world.deaths()


def test_pb16_without_a_topic_for_rejects_the_row_is_named() -> None:
    world = killing(7, 5)
    error = world.run().error

    assert isinstance(error, DecisionNeededError)
    assert "P885" == error.code
    assert error.message.endswith(", the next one behind row 5"), error.message
    assert world.reached() == 5
    assert world.expected(5) == world.found()

    world.table.rows[5] = ("a", "left out")
    assert world.run().error is None
    assert world.expected(7) == world.found()


@pytest.mark.parametrize("seed", range(15))
def test_any_rows_that_kill_are_rejected_and_no_others(seed):
    chance = random.Random(seed)
    count = chance.randrange(1, 120)
    killers = chance.sample(range(count), min(count, chance.randrange(6)))
    world = killing(count, *killers)
    world.rows_max, world.rows_taken = chance.randrange(1, 200), chance.randrange(1, 200)
    world.chosen = lambda: chance.choice([{}, by_library()])
    world.reject()
    live(world, chance)
    assert world.run().error is None

    assert sorted(killers) == sorted({each["before"]["row"] - 1 for each in world.rejected()})
    assert len(killers) == len(world.rejected())
    for number in killers:
        world.table.rows[number] = ("a", "left out")
    assert world.expected(count) == world.found()


def test_where_nothing_dies_alone_nothing_is_rejected() -> None:
    world = killing(100)
    world.rows_taken = 10
    world.reject()

    assert world.run().error is None
    assert ([], 100) == (world.rejected(), world.reached())
    assert world.expected(100) == world.found()


def test_where_every_worker_dies_nothing_is_rejected() -> None:
    world = killing(10)
    world.reject()
    world.rows_taken = -1
    error = world.run().error

    assert isinstance(error, UnavailableError)
    assert "P814" == error.code
    assert ([], {}) == (world.rejected(), world.found())


def test_where_more_rows_kill_than_is_likely_a_person_decides() -> None:
    world = killing(30, *range(30))
    world.reject()
    error = world.run().error

    assert isinstance(error, DecisionNeededError)
    assert ("P886", FOUND_MAX) == (error.code, len(world.rejected()))


@dataclass(slots=True)
class KillingMirror(PublishingWorld):
    """Its worker dies of a record, and is seen not to have answered."""

    def _done(self, act: Act, text: str) -> str:
        reader = TopicReader(MemoryReader(self.cluster, self.clock, batch_records=3))
        for stretch in stretches_of(text):
            for each in reader.read(stretch, deadline=float("inf")):
                if b"kills" in each.messages.column("value").to_pylist():
                    raise died()
        return PublishingWorld._done(self, act, text)


@pytest.mark.parametrize("chosen", [{}, by_library(), by_library(2)])
def test_a_record_of_a_topic_that_kills_is_named(chosen):
    world = KillingMirror()
    world.chosen = lambda: chosen
    world.send(0, *map(str, range(40)))
    world.send(1, *map(str, range(20)), "kills", *map(str, range(20)))
    error = world.run().error

    assert isinstance(error, DecisionNeededError)
    assert "P885" == error.code
    assert "[1], the next one behind 20" in error.message
    assert world.sent(1)[:20] == world.published(1)
    assert world.sent(0)[: len(world.published(0))] == world.published(0)


def test_a_publication_begins_at_ends_that_are_known(world: PublishingWorld) -> None:
    """Else all of a partition came, whose leader was away when the others began at their ends."""
    world.send(0, "old")
    world.send(1, "old")
    world.cluster.partition(FROM, 1).led = False
    publisher = world.publisher("stopped", start="latest")
    publisher.step()

    assert publisher.error is not None
    assert ("P250", "") == (publisher.error.code, publisher.reason)

    world.cluster.partition(FROM, 1).led = True
    world.clock.advance(AGAIN_SECONDS + 1)
    assert publisher.step()
    world.send(1, "new")
    world.clock.advance(60)
    assert publisher.step()
    assert ([], [b"new"]) == (world.published(0), world.published(1))


def test_a_publication_goes_on_with_the_partitions_that_have_a_leader(
    world: PublishingWorld,
) -> None:
    world.send(0, "a")
    world.send(1, "b")
    assert world.run().error is None
    world.send(0, "c")
    world.send(1, "d")
    world.cluster.partition(FROM, 1).led = False
    error = world.run().error
    assert error is not None, "what is not known is not caught up with"
    assert ("P250", 75) == (error.code, error.exit_code)
    assert ([b"a", b"c"], [b"b"]) == (world.published(0), world.published(1))

    run = world.publisher()
    run.step()
    world.cluster.partition(FROM, 1).led = True  # a moment later
    run.run(threading.Event())
    assert run.error is None
    assert [b"b", b"d"] == world.published(1)


@pytest.mark.parametrize("accept", [set(), {Accepted.TARGET}])
def test_a_target_partition_without_a_leader_has_lost_nothing(
    world: PublishingWorld, accept: set[Accepted]
) -> None:
    """What it holds is not known: nothing is to be accepted, and nothing is."""
    world.send(0, "a")
    assert world.run().error is None
    world.cluster.partition(INTO, 0).led = False
    publisher = world.publisher("stopped", accept=frozenset(accept), source={"topics": [FROM]})
    planned = view_of(publisher.publication, world.ports(publisher.publication))
    publisher.step()

    assert planned.problem is not None
    assert publisher.error is not None
    assert ("P250", "P250", "") == (planned.problem.code, publisher.error.code, publisher.reason)

    world.cluster.partition(INTO, 0).led = True
    world.clock.advance(AGAIN_SECONDS + 1)
    assert publisher.step()
    publisher.end("")
    world.make_again(INTO)
    error = world.run().error
    assert error is not None
    assert "P808" == error.code


def test_a_target_partition_that_the_last_transaction_did_not_write_may_be_without_a_leader(
    world: PublishingWorld,
) -> None:
    world.send(0, "a")
    assert world.run().error is None
    world.cluster.partition(INTO, 1).led = False
    world.send(0, "b")
    assert world.run().error is None
    assert [b"a", b"b"] == world.published(0)


@pytest.mark.parametrize("stands_by", [False, True])
def test_a_stand_by_that_another_run_forestalled_stands_by_again(
    world: PublishingWorld, stands_by: bool
) -> None:
    """Else it was in a run's place without being its owner, for as long as that one lived."""
    assert world.publisher("stopped").step()
    late = world.publisher("stopped")
    late.takeover, late.stands_by = False, stands_by
    late.step()

    assert late.error is not None
    assert ("P510", stands_by) == (late.error.code, bool(late.reason))
