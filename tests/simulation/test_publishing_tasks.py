"""Publications of several tasks, played: each has an id, and whoever had it before is fenced."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from tests.story.publishing import FROM, INTO, OFFSETS, PARTITIONS, PublishingWorld, by_library

from penstock.app.inspect.publication_audit import audit_publication
from penstock.app.inspect.publications import view_of
from penstock.core.positions import partition_of
from penstock.core.resuming import Accepted
from penstock.publishing.publisher import Publisher
from penstock.publishing.record import read_record, task_of
from penstock.testing.contracts.transactions import WAIT_SECONDS_MAX


@pytest.fixture
def world() -> PublishingWorld:
    found = PublishingWorld()
    found.chosen = lambda: by_library(3)
    return found


def tasks_of(world: PublishingWorld, tasks: int) -> list[int]:
    """Return the task of each partition of the source."""
    topic_id = world.cluster.topic(FROM).id
    places = [{"partition": n, "topic": FROM, "topic_id": topic_id} for n in range(PARTITIONS)]
    return [task_of(partition_of(each, FROM), tasks) for each in places]


def code_of(publisher: Publisher) -> str:
    return "" if publisher.error is None else publisher.error.code


def test_each_task_has_an_id_a_ledger_and_transactions_of_its_own(world):
    world.send(0, "a", "b")
    world.send(1, "c")
    assert "" == code_of(world.run())

    own = tasks_of(world, 3)
    entries = world.cluster.partition(INTO, 0).entries, world.cluster.partition(INTO, 1).entries
    producers = {each[0].transaction.term[0] for each in entries}
    assert len(set(own)) == len(producers)
    assert {f"penstock-orders-{n}" for n in range(3)} == {*world.coordinator._ids}
    assert 3 == sum(b'"ledger"' in key for key in world.offsets())


def test_a_plan_says_how_many_tasks_have_no_partition(world):
    """They hold their ids, and send nothing."""
    publication = replace(world.publisher().publication, source={"topics": [FROM]})
    view = view_of(publication, world.ports(publication))

    idle = 3 - len({*tasks_of(world, 3)})
    assert f"3 tasks ({idle} without a partition)" in view.client


@pytest.mark.parametrize("counts", [(5, 3, 1, 4), (1, 3, 2), (3, 1, 3, 1)])
def test_the_number_of_tasks_may_change(world, counts):
    for number, tasks in enumerate(counts):
        world.chosen = lambda tasks=tasks: by_library(tasks)
        for partition in range(PARTITIONS):
            world.send(partition, f"{number}-{partition}")
        assert "" == code_of(world.run())

    for partition in range(PARTITIONS):
        assert world.sent(partition) == world.published(partition)
    record = read_record(
        "orders", world.ports(world.publisher().publication).producers.ledger.look()
    )
    assert record.is_whole
    assert counts[-1] == len(record.ledgers)


def test_the_own_sender_and_the_library_take_turns(world):
    for number, chosen in enumerate([{}, by_library(2), {}, by_library(1), by_library(1), {}]):
        world.chosen = lambda chosen=chosen: chosen
        world.send(number % PARTITIONS, f"{number}")
        assert "" == code_of(world.run())

    assert [b"0", b"2", b"4"] == world.published(0)
    assert [b"1", b"3", b"5"] == world.published(1)


def test_a_task_that_initialises_after_it_was_replaced_sends_nothing(world):
    """K5: the run that replaces it has one task, and takes the ids of three before it looks."""
    of = next(n for n, task in enumerate(tasks_of(world, 3)) if task)
    world.send(of, "a")
    fenced, go_on = threading.Event(), threading.Event()
    taken: list[str] = []

    def late(step: str) -> str:
        taken.extend([step] if step == "taken" else [])
        if step == "taken" and len(taken) == 3:  # the last of those that it does not use itself
            fenced.set()
            assert go_on.wait(WAIT_SECONDS_MAX)
        return ""

    successor = threading.Thread(
        target=lambda: world.run(act=late, **{**by_library(1), "tasks": 1}), daemon=True
    )
    begun: list[str] = []

    def act(step: str) -> str:
        begun.extend([step] if step in {"work", "end"} else [])
        if step == "work":
            successor.start()
            assert fenced.wait(WAIT_SECONDS_MAX)
        if step == "end" and "work" in begun:
            finish()
        return ""

    def finish() -> None:
        go_on.set()
        successor.join(WAIT_SECONDS_MAX)

    replaced = world.publisher(act=act)
    replaced.step()
    replaced.step()
    finish()

    assert [b"a"] == world.published(of)
    replaced.step()
    assert "P804" == code_of(replaced)


def test_an_announced_number_of_tasks_is_fenced_where_the_start_died(world):
    """Former ids, also of a start that only announced them, before any has begun."""
    taken: list[str] = []

    class DiedError(Exception):
        pass

    def act(step: str) -> str:
        taken.extend([step] if step == "taken" else [])
        if len(taken) == 2:
            raise DiedError
        return ""

    world.send(0, "a")
    with pytest.raises(DiedError):
        world.run(act=act)
    world.chosen = lambda: by_library(1)
    assert "" == code_of(world.run())

    assert {f"penstock-orders-{n}" for n in range(3)} == {*world.coordinator._ids}
    assert [b"a"] == world.published(0)


def test_a_job_that_is_done_again_finds_what_the_first_did(world):
    world.send(0, "a", "b")
    world.send(1, "c")
    run = world.run(act=lambda step: "twice" if step == "work" else "")

    assert ("", 3) == (code_of(run), run.rows)
    assert [b"a", b"b"] == world.published(0)
    assert [b"c"] == world.published(1)


@pytest.mark.parametrize("target_is_new", [False, True])
def test_an_offsets_topic_that_is_gone_stops_also_several_tasks(world, target_is_new):
    world.send(0, "a")
    world.send(1, "b")
    assert "" == code_of(world.run())
    world.make_again(OFFSETS)
    if target_is_new:
        world.make_again(INTO)

    assert "P811" == code_of(world.run())  # no claim was announced that would hide it
    assert "" == code_of(world.run(accept=frozenset({Accepted.LEDGER})))


@pytest.mark.parametrize("task", range(3))
def test_a_ledger_of_any_task_that_went_back_stops_the_publication(world, task):
    world.send(0, "a")
    world.send(1, "b")
    world.run()
    former = world.offsets()
    world.send(0, "c")
    world.send(1, "d")
    world.run()
    own = f'"task":{task}'.encode()
    moved = [of for of, each in enumerate(tasks_of(world, 3)) if each == task]
    back = [(key, value) for key, value in former.items() if own in key]
    back += [
        (key, value)
        for key, value in former.items()
        for of in moved
        if f'"partition":{of}'.encode() in key
    ]
    world.write_offsets(*back)

    assert ("P810" if moved else "") == code_of(world.run())
    assert [b"a", b"c"] == world.published(0)
    assert [b"b", b"d"] == world.published(1)


@pytest.mark.parametrize("counts", [(3, 3, 3), (2, 3, 1, 2)])
def test_the_chain_of_each_task_is_gapless(world, counts):
    for number, tasks in enumerate(counts):
        world.chosen = lambda tasks=tasks: by_library(tasks)
        for _ in range(2):
            for partition in range(PARTITIONS):
                world.send(partition, f"{number}")
            assert "" == code_of(world.run())
        publication = world.publisher().publication
        audited = audit_publication(publication, world.ports(publication))
        assert ((), None) == (audited.breaks, audited.problem)
