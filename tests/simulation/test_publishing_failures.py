"""Failures from outside that a publication outlives: clocks, disks of brokers, rows that kill."""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from tests.story.clock import START_MS, ManualClock
from tests.story.publishing import live
from tests.story.publishing_rows import RowsWorld

from penstock.core.errors import UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.ports.producers import PackedBatch, Refused, Term
from penstock.publishing.messages import Encoding, SendJob, job_from_json
from penstock.publishing.worker import SendTools

DISK_FULL = Refused(56, "the log directory is offline: KAFKA_STORAGE_ERROR")
SKEWS_MS = (-600_000, 0, 600_000)


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


@dataclass(slots=True)
class KillingWorld(RowsWorld):
    """Its worker dies of a row."""

    def _work(self, text: str) -> str:
        job = job_from_json(text)
        assert isinstance(job.work, Encoding)
        for stretch in job.work.stretches:
            for read in self.table.read(stretch, deadline=0.0):
                if "kills" in read.rows.column("v").to_pylist():
                    raise UnavailableError("a Python worker died", code="P606", hint="")
        return RowsWorld._work(self, text)


def test_pb16_a_row_that_kills_its_worker_ends_with_nothing_doubled() -> None:
    """It is found and rejected by nobody: what is before it is published, and the run ends."""
    world = KillingWorld(rows_max=8)
    world.table.rows = [("a", str(number)) for number in range(5)] + [("a", "kills"), ("a", "6")]
    error = world.run().error

    assert isinstance(error, UnavailableError)
    assert ("P814", 75) == (error.code, error.exit_code)
    assert "a Python worker died" in error.message
    assert world.reached() == 5
    assert world.expected(5) == world.found()

    world.table.rows[5] = ("a", "left out")
    assert world.run().error is None
    assert world.expected(7) == world.found()
