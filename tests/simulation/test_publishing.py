"""Publishing, played: whatever goes wrong, each record is published once, and in order."""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
import threading
from typing import Never

import pyarrow as pa
import pytest
from tests.story.publishing import (
    FROM,
    ID,
    INTO,
    OFFSETS,
    PARTITIONS,
    PublishingWorld,
    by_library,
    live,
)

from penstock.app.inspect import publication_audit, publications
from penstock.app.inspect.publication_audit import audit_publication
from penstock.app.inspect.publications import view_of
from penstock.app.repair.publication_seek import moves_of
from penstock.connectors.memory.cluster import Message, Partition, Transaction
from penstock.connectors.memory.transactions import MemoryTerms
from penstock.core import resuming
from penstock.core.errors import FencedError, InvalidError, UnavailableError
from penstock.core.offsets import Offset
from penstock.core.positions import partition_of, position_of
from penstock.core.publication_events import RowsPublished, TransactionGivenUp
from penstock.core.resuming import Accepted
from penstock.ports.log import Fetched
from penstock.ports.producers import NewTopic, Term
from penstock.ports.sources import MESSAGES, EpochLimit, Stretch
from penstock.publishing import deciding, publisher, start, worker
from penstock.publishing.publisher import Publisher
from penstock.publishing.record import read_record
from penstock.publishing.topic_source import TopicReader


@pytest.fixture
def world() -> PublishingWorld:
    return PublishingWorld()


def test_records_are_mirrored_with_keys_headers_and_times(world):
    world.send(0, "a", "", "c")
    world.send(1, "d")
    world.run()

    assert world.sent(0) == world.published(0) == [b"a", None, b"c"]
    assert world.sent(1) == world.published(1)
    first = world.cluster.partition("orders", 0).entries[0].message
    assert world.cluster.partition(FROM, 0).entries[0].message == first


def test_a_second_run_publishes_what_came_since(world):
    world.send(0, "a")
    world.run()
    world.send(0, "b")
    world.run()

    assert [b"a", b"b"] == world.published(0)


def require_exact(world: PublishingWorld, *, whole: bool) -> None:
    for partition in range(PARTITIONS):
        sent, published = world.sent(partition), world.published(partition)
        assert sent[: len(published)] == published
        assert not whole or sent == published


@pytest.mark.parametrize("seed", range(400))
def test_any_history_publishes_each_record_once_and_in_order(seed, monkeypatch):
    """Partitions are sent together, one by one, as large ones are, or as far as memory goes."""
    monkeypatch.setattr(worker, "ROWS_TOGETHER", [worker.ROWS_TOGETHER, 0][seed % 2])
    monkeypatch.setattr(worker, "BYTES_TOGETHER", [worker.BYTES_TOGETHER, 1][seed // 2 % 2])
    play(PublishingWorld(), random.Random(seed))


def play(world: PublishingWorld, chance: random.Random) -> None:
    """Let runs live and die between records that come; what is published is exact all the while."""
    world.rows_max = chance.choice([1, 3, 7, 1000])
    for _ in range(chance.randrange(1, 6)):
        for partition in range(PARTITIONS):
            world.send(partition, *(f"{chance.random()}" for _ in range(chance.randrange(4))))
        live(world, chance)
        require_exact(world, whole=False)
    last = world.run()

    assert last.error is None
    require_exact(world, whole=True)


def test_a_run_that_another_replaced_is_fenced(world):
    world.send(0, "a", "b")

    def act(step: str) -> str:
        if step == "send.before" and not world.published(0):
            world.run()
        return ""

    error = world.run(act=act).error

    assert isinstance(error, FencedError)
    assert "P804" == error.code
    assert [b"a", b"b"] == world.published(0)


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_run_that_was_replaced_while_its_brokers_were_away_does_not_come_back(
    world, monkeypatch, has_ended
):
    """Nor does it take over again, though that is how it was begun."""
    world.send(0, "a")
    replaced = running(world)
    source = replaced.environment.ports.source
    with monkeypatch.context() as patch:
        patch.setattr(type(source), "ends", lambda _: fail("the brokers are away"))
        assert replaced.step()
    successor = world.publisher("stopped")
    assert successor.step()
    if has_ended:
        successor.end("asked to stop")
    world.clock.advance(11)
    assert replaced.step()

    assert isinstance(replaced.error, FencedError)
    assert ("P804", replaced.error.message) == (replaced.error.code, replaced.reason)
    assert not replaced.step()


def test_a_run_that_was_replaced_while_it_started_does_not_come_back(world, monkeypatch):
    """Its claim was its own, though it had not begun."""
    world.send(0, "a")
    replaced = world.publisher("stopped")
    with monkeypatch.context() as patch:
        patch.setattr(publisher, "start", lambda _: fail("the brokers are away"))
        assert replaced.step()
    successor = world.publisher("stopped")
    assert successor.step()
    world.clock.advance(11)
    assert replaced.step()

    assert isinstance(replaced.error, FencedError)
    assert not replaced.step()


def fail(reason: str) -> Never:
    raise UnavailableError(reason, code="P280")


def published_once(world: PublishingWorld) -> PublishingWorld:
    world.send(0, "a", "b")
    assert world.run().error is None
    return world


def code_of(world: PublishingWorld, **changes: object) -> str:
    error = world.run(**changes).error
    return "" if error is None else error.code


def test_another_group_with_the_same_offsets_topic_is_refused(world):
    assert "P806" == code_of(published_once(world), group="other")


def test_a_lost_position_stops_the_publication(world):
    published_once(world)
    key = next(each for each in world.offsets() if b"topic_id" in each)
    world.write_offsets((key, None))

    assert "P807" == code_of(world)


def put_to(world: PublishingWorld, *words: str) -> dict[str, object]:
    """Return what a start is given by a seek."""
    source = world.ports(world.publisher().publication).source
    return {"accept": frozenset(Accepted), "accept_gap": True, "places": source.places([*words])}


def test_a_publication_goes_on_from_the_positions_that_a_seek_names(world):
    published_once(world)
    world.send(0, "c")
    assert "" == code_of(world, **put_to(world, f"{FROM}:0:1"))
    assert [b"a", b"b", b"b", b"c"] == world.published(0)

    world.send(0, "d", "e")
    assert "" == code_of(world, **put_to(world, "latest"))
    assert "" == code_of(world)
    assert [b"a", b"b", b"b", b"c"] == world.published(0)


def test_an_audit_tells_each_seek_and_what_came_of_it(world):
    world.send(0, *"abcdefghij")
    assert "" == code_of(world, limit=EpochLimit(2, 1 << 30), start="latest")
    world.send(0, *"klmn")
    assert "" == code_of(world)
    assert "" == code_of(world, **put_to(world, f"{FROM}:0:6"))
    world.send(0, *"opq")
    assert "" == code_of(world, **put_to(world, "latest"))
    publication = world.publisher(source={"topics": [FROM]}).publication
    found = audit_publication(publication, world.ports(publication))
    view = view_of(publication, world.ports(publication))
    assert () == found.breaks
    assert (12, 12, 2) == (found.records, view.published, view.epoch)
    back, forward = found.sought
    assert back == (
        f"before transaction 2: {FROM}[0] goes on at offset 6, not at offset 14:"
        " 4 records are published again, 4 records are published for the first time"
    )
    assert forward.startswith(f"after the last transaction: {FROM}[0] goes on at ")
    assert forward.endswith(": 3 records are not published")


def test_positions_that_were_lost_are_named_by_a_seek(world):
    published_once(world)
    key = next(each for each in world.offsets() if b"topic_id" in each)
    world.write_offsets((key, None))
    assert "P807" == code_of(world)

    publication = world.publisher().publication
    ports = world.ports(publication)
    record = read_record(publication.name, ports.producers.ledger.look())
    for words, code in (([], "P172"), ([f"{FROM}:0:1"], "P818")):
        with pytest.raises(InvalidError) as refused:
            moves_of(publication, ports.source, record, words)
        assert code == refused.value.code
    assert PARTITIONS == len(moves_of(publication, ports.source, record, ["latest"]))

    assert "" == code_of(world, **put_to(world, "latest"))
    world.send(0, "c")
    assert "" == code_of(world)
    assert [b"a", b"b", b"c"] == world.published(0)


@pytest.mark.parametrize(
    ("word", "code"),
    [("soon", "P172"), (f"{FROM}:0", "P172"), (f"{FROM}:9:0", "P817"), (f"{FROM}:0:99", "P817")],
)
def test_a_place_that_is_not_there_is_refused(world, word, code):
    published_once(world)
    with pytest.raises(InvalidError) as refused:
        put_to(world, word)
    assert code == refused.value.code


def test_a_target_that_is_gone_is_not_created_again_before_a_person_accepted_it(world):
    published_once(world)
    del world.cluster._topics[INTO]
    for settings in ({"new_topic": NewTopic()}, {}):
        assert "P808" == code_of(world, **settings)
        assert INTO not in world.cluster.names()
        publication = world.publisher(**settings).publication
        audited = audit_publication(publication, world.ports(publication)).problem
        assert ("P808", True) == (audited.code, "--accept target" in audited.hint)

    world.send(0, "c")
    accepted = {"new_topic": NewTopic(), "accept": frozenset({Accepted.TARGET})}
    assert "" == code_of(world, **accepted)
    assert [b"c"] == world.published(0)


@pytest.mark.parametrize("accept", [set(), {Accepted.TARGET}])
def test_a_target_that_was_made_again_stops_the_publication(world, accept):
    published_once(world)
    world.make_again(INTO)
    world.send(0, "c")

    publication = world.publisher().publication
    audited = audit_publication(publication, world.ports(publication))
    assert ("P808", 4) == (audited.problem.code, audited.exit_code)
    assert ("" if accept else "P808") == code_of(world, accept=frozenset(accept))
    assert ([b"c"] if accept else []) == world.published(0)


def test_what_a_target_lost_is_accepted_once(world):
    """Also where nothing is published after it, and the run that accepted it has long ended."""
    published_once(world)
    world.make_again(INTO)
    assert "" == code_of(world, accept=frozenset({Accepted.TARGET}))
    assert "again, which was accepted; the next" in told_by_an_audit(world)
    assert "" == code_of(world)
    world.make_again(INTO)  # nothing of ours was in it
    assert "" == code_of(world)

    world.send(0, "c")
    assert "" == code_of(world)
    assert "again; the new one has transactions from 2 on" in told_by_an_audit(world)
    world.make_again(INTO)
    assert "P808" == code_of(world)


def told_by_an_audit(world):
    """Return what an audit did not compare."""
    publication = world.publisher().publication
    found = audit_publication(publication, world.ports(publication))
    assert (None, ()) == (found.problem, found.breaks)
    return "; ".join(found.not_compared)


def test_what_is_accepted_holds_for_one_start(world):
    """A run that goes on for weeks asks again about what is lost later."""
    published_once(world)
    world.make_again(INTO)
    world.send(0, "c")
    run = world.publisher("stopped", accept=frozenset({Accepted.TARGET}), accept_gap=True)
    run.step()
    run.step()
    assert [b"c"] == world.published(0)
    world.make_again(INTO)
    world.send(0, "d")
    run.run(threading.Event())

    assert run.error is not None
    assert "P808" == run.error.code
    assert [] == world.published(0)


def test_a_stand_by_whose_claim_comes_too_late_does_not_keep_its_turn(world):
    """It stands by again; a run that stands alone tries again until the other one has ended."""
    world.send(0, "a")
    other = world.publisher("stopped")
    other.step()
    alone, standby = world.publisher("stopped"), world.publisher("stopped")
    standby.stands_by = True
    for each in (alone, standby):
        each.takeover = False
        each.step()
    other.close()

    assert ["P510", "P510"] == [each.error.code for each in (alone, standby)]
    assert [False, True] == [bool(each.reason) for each in (alone, standby)]


@pytest.mark.parametrize("accept", [set(), {Accepted.LEDGER}])
def test_an_offsets_topic_that_went_back_stops_the_publication(world, accept):
    published_once(world)
    former = world.offsets()
    world.send(0, "c")
    world.run()
    world.write_offsets(*former.items())

    assert ("" if accept else "P810") == code_of(world, accept=frozenset(accept))
    assert [b"a", b"b", b"c", *([b"c"] if accept else [])] == world.published(0)


def test_an_offsets_topic_that_is_gone_stops_the_publication(world):
    published_once(world)
    world.make_again(OFFSETS)

    assert "P811" == code_of(world)
    assert "" == code_of(world, accept=frozenset({Accepted.LEDGER}))
    assert [b"a", b"b"] * 2 == world.published(0)


def test_a_start_that_died_behind_its_fence_hides_no_transaction(world):
    """The fence erases what the coordinator remembers of an end; the targets still tell."""
    published_once(world)
    world.make_again(OFFSETS)
    world.coordinator.initialise(ID, None)

    assert "P811" == code_of(world)
    assert [b"a", b"b"] == world.published(0)


def test_a_start_that_died_before_its_first_transaction_is_begun_again(world):
    world.send(0, "a")
    world.coordinator.initialise(ID, None)

    assert "" == code_of(world)
    assert [b"a"] == world.published(0)


def test_a_ledger_that_went_back_while_an_answer_was_lost_is_not_gone_on_from(world):
    published_once(world)
    former = world.offsets()
    world.send(0, "c")

    ends: list[str] = []

    def act(step: str) -> str:
        ends.extend([step] if step == "end" else [])
        if step == "ended" and len(ends) == 2:
            world.write_offsets(*former.items())
        return "lost" if step == "end" and len(ends) == 2 else ""

    assert "P810" == code_of(world, act=act)
    assert [b"a", b"b", b"c"] == world.published(0)


def test_a_ledger_that_went_back_before_the_fence_is_not_gone_on_from(world, monkeypatch):
    published_once(world)
    former, take = world.offsets(), MemoryTerms.take
    successor = world.publisher()

    def late(terms: MemoryTerms, transactional_id: str) -> Term:
        """Take, once another run has published and its ledger went back."""
        monkeypatch.undo()
        world.send(0, "c")
        world.run()
        world.write_offsets(*former.items())
        return take(terms, transactional_id)

    monkeypatch.setattr(MemoryTerms, "take", late)
    successor.run(threading.Event())

    assert successor.error is not None
    assert [b"a", b"b", b"c"] == world.published(0)


def test_a_successor_that_publishes_between_two_looks_of_a_start_fences_it(world, monkeypatch):
    """What stands in the target is then behind a ledger that was read before."""
    published_once(world)
    zombie, take, ends_of = world.publisher(), MemoryTerms.take, start.ends_of

    def twice(terms, transactional_id):
        """Take after a rival that took and died: the tail of the target has to be read."""
        take(terms, transactional_id)
        return take(terms, transactional_id)

    def late(ports, record):
        """Look at the target once another run has published."""
        monkeypatch.undo()
        world.send(0, "c")
        world.run()
        return ends_of(ports, record)

    monkeypatch.setattr(MemoryTerms, "take", twice)
    monkeypatch.setattr(start, "ends_of", late)
    zombie.run(threading.Event())

    assert isinstance(zombie.error, FencedError)
    assert [b"a", b"b", b"c"] == world.published(0)


def test_a_run_notices_that_its_target_was_made_again(world):
    published_once(world)
    world.send(0, "c")

    def act(step: str) -> str:
        if step == "ended" and b"c" not in world.published(0):
            world.make_again(INTO)
        return ""

    assert "P808" == code_of(world, act=act)
    assert [] == world.published(0)


def test_positions_of_a_connector_are_gone_on_from(world):
    world.send(0, "a", "b", "c")
    topic_id = world.cluster.topic(FROM).id
    key = f'["orders",{{"topic_id":"{topic_id}","topic":"{FROM}","partition":0}}]'.encode()
    world.make(OFFSETS)
    world.write_offsets((key, b'{"offset": 2}'))

    assert "P811" == code_of(world)
    assert "" == code_of(world, accept=frozenset({Accepted.LEDGER}))
    assert [b"c"] == world.published(0)
    assert b'{"leader_epoch":0,"offset":3}' == world.offsets()[key]


@pytest.mark.parametrize("accept_gap", [False, True])
def test_records_that_are_gone_before_they_were_published(world, accept_gap):
    published_once(world)
    world.send(0, "c", "d")
    world.cluster.partition(FROM, 0).start = 3

    assert ("" if accept_gap else "P812") == code_of(world, accept_gap=accept_gap)
    assert [b"a", b"b", *([b"d"] if accept_gap else [])] == world.published(0)


def test_a_source_that_was_made_again_stops_the_publication(world):
    published_once(world)
    world.make_again(FROM)

    assert "P812" == code_of(world)


def running(world: PublishingWorld) -> Publisher:
    """Return a run that has published what there was, and goes on."""
    publisher = world.publisher("stopped")
    assert publisher.step()
    assert publisher.step()
    world.clock.advance(10)
    return publisher


def test_a_source_that_is_made_again_while_a_run_goes_on_stops_it(world):
    world.send(0, "a")
    publisher = running(world)
    world.send(0, "lost")
    world.make_again(FROM)
    world.send(0, "b")
    publisher.step()

    assert publisher.error is not None
    assert "P812" == publisher.error.code
    assert [b"a"] == world.published(0)


def test_records_that_are_deleted_before_a_run_reads_them_stop_it(world):
    world.send(0, "a")
    publisher = running(world)
    world.send(0, "b", "c")
    world.cluster.partition(FROM, 0).start = 2
    publisher.step()

    assert publisher.error is not None
    assert "P812" == publisher.error.code
    assert "penstock publish --accept gap" in publisher.error.hint


def test_a_source_that_was_made_again_is_accepted_once(world):
    published_once(world)
    world.make_again(FROM)
    world.send(0, "c")

    assert "" == code_of(world, accept_gap=True)
    assert [b"a", b"b", b"c"] == world.published(0)
    assert "" == code_of(world)
    assert "" == code_of(world, accept_gap=True)
    assert [b"a", b"b", b"c"] == world.published(0)


def test_batches_are_as_small_as_the_target_takes_them(world):
    world.cluster.topic(INTO).batch_bytes_max = 3_000
    values = [f"{number:04}" * 400 for number in range(7)]
    world.send(0, *values)
    run = world.run()

    assert run.error is None
    assert world.sent(0) == world.published(0)
    given_up = [each for each in world.events if isinstance(each, TransactionGivenUp)]
    assert 1 == len(given_up)


def test_a_record_that_the_target_does_not_take_is_named(world):
    world.cluster.topic(INTO).batch_bytes_max = 3_000
    world.send(0, "a", "b", "x" * 5_000, "c")
    error = world.run().error

    assert isinstance(error, InvalidError)
    assert "P816" == error.code
    assert "error 10: record 3 of those from 0 on" in error.message
    assert [] == world.published(0)


def test_a_partition_that_the_target_does_not_have(world):
    world.cluster.topic(FROM).partitions.append(Partition())
    world.send(2, "x")

    assert "P813" == code_of(world)


def test_a_source_with_more_partitions_is_refused_before_one_of_them_has_a_record(world):
    world.cluster.topic(FROM).partitions.append(Partition())
    world.send(0, "x")
    asked = world.publisher(source={"topics": [FROM]}).publication
    planned = view_of(asked, world.ports(asked)).problem

    assert planned is not None
    assert "P813" == planned.code == code_of(world)
    assert [] == world.published(0)


def test_a_target_that_is_created_has_a_partition_for_each_of_its_source(world):
    world.cluster.topic(FROM).partitions.append(Partition())
    world.send(2, "x")
    few = {"into": "new", "new_topic": NewTopic(2), "source": {"topics": [FROM]}}
    asked = world.publisher(**few).publication
    planned = view_of(asked, world.ports(asked)).problem
    refused = world.run(**few).error

    assert planned is not None
    assert refused is not None
    assert ("P813", "write  partitions: 3,  or leave it out") == (refused.code, refused.hint)
    assert (refused.code, refused.message) == (planned.code, planned.message)
    assert "new" not in world.cluster.names()
    assert world.run(**few | {"new_topic": NewTopic()}).error is None
    assert 3 == len(world.cluster.topic("new").partitions)


def test_a_plan_says_that_a_target_was_deleted_as_a_run_does(world):
    world.send(0, "a")
    given = {"into": "new", "new_topic": NewTopic(), "source": {"topics": [FROM]}}
    assert world.run(**given).error is None
    del world.cluster._topics["new"]
    asked = world.publisher(**given).publication
    planned = view_of(asked, world.ports(asked)).problem
    accepted = world.publisher(**given, accept=frozenset({Accepted.TARGET})).publication
    found = view_of(accepted, world.ports(accepted))

    assert planned is not None
    assert "P808" == planned.code == code_of(world, **given)
    assert (None, 0) == (found.problem, found.backlog)
    assert [found.accepts[0]] == [*found.accepts]
    assert "new lost what was published; goes on: " in found.accepts[0]
    assert f"{FROM}[0] at offset 1" in found.accepts[0]
    world.run(**given, accept=frozenset({Accepted.TARGET}))
    assert None is view_of(asked, world.ports(asked)).problem


def test_a_target_that_is_missing_is_named_with_what_creates_it(world):
    error = world.run(into="new").error

    assert error is not None
    assert "P205" == error.code
    assert "topic: { create: true }" in error.hint


def test_a_partition_that_is_added_begins_with_its_first_record(world):
    published_once(world)
    for topic in (FROM, INTO):
        world.cluster.topic(topic).partitions.append(Partition())
    world.send(2, "x")
    world.run()

    assert [b"x"] == world.published(2)


def test_tasks_that_always_run_twice_end_the_publication(world):
    world.send(0, "a")

    error = world.run(act=lambda step: "twice" if step == "work" else "").error

    assert isinstance(error, UnavailableError)
    assert "P814" == error.code
    assert [] == world.published(0)


def test_a_begin_that_is_always_refused_ends_the_publication(world):
    world.send(0, "a")

    error = world.run(act=lambda step: "lost" if step == "append" else "").error

    assert isinstance(error, UnavailableError)
    assert "P805" == error.code


def test_positions_of_another_kind_of_source(world):
    world.make(OFFSETS)
    world.write_offsets((b'["orders",{"file":"a.json"}]', b'{"line":7}'))

    assert "P815" == code_of(world, accept=frozenset({Accepted.LEDGER}))


def test_a_transaction_of_ours_that_hangs_stops_the_publication(world):
    published_once(world)
    key = next(iter(world.offsets()))
    place = world.cluster.partition(OFFSETS, 0)
    place.add(Message(b"{}", key), Transaction(None, (99, 0)))
    asked = world.publisher(source={"topics": [FROM]}).publication
    planned = view_of(asked, world.ports(asked)).problem

    assert planned is not None
    assert "P803" == planned.code == code_of(world)


def test_a_plan_takes_a_transaction_of_a_run_that_lives_for_none_that_hangs(world):
    published_once(world)
    key, id_ = next(iter(world.offsets())), "penstock-orders-0"
    asked = world.publisher(source={"topics": [FROM]}).publication
    ports = world.ports(asked)
    term = ports.producers.terms.take(id_)
    ports.producers.ledger.append(id_, term, [(key, b"{}")])

    assert ports.producers.ledger.look().undecided
    assert None is view_of(asked, ports).problem


@pytest.mark.parametrize("begun", [False, True])
def test_looks_beside_a_run_find_nothing_wrong_in_what_it_publishes_meanwhile(
    world, monkeypatch, begun
):
    if begun:
        published_once(world)
    asked = world.publisher(source={"topics": [FROM]}).publication

    def after_one_more(module, name):
        look, due = getattr(module, name), ["m"]

        def looked(*given, **words):
            if due:
                world.send(0, due.pop())
                assert "" == code_of(world)
            return look(*given, **words)

        monkeypatch.setattr(module, name, looked)

    after_one_more(publications, "preflight")
    assert None is view_of(asked, world.ports(asked)).problem
    after_one_more(publication_audit, "target_of")
    found = audit_publication(asked, world.ports(asked))
    assert (None, ()) == (found.problem, found.breaks)
    assert world.published(0)[-2:] == [b"m", b"m"]


def test_a_header_whose_name_is_no_text():
    headers = pa.array([None], MESSAGES.field("headers").type)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([7]),
            pa.nulls(1, pa.timestamp("ms", tz="UTC")),
            *[pa.nulls(1, pa.binary())] * 2,
            headers,
        ],
        names=["offset", "timestamp", "key", "value", "headers"],
    )

    class Reader:
        def read(self, *_: object, **__: object):
            yield Fetched(batch, Offset(8))

    of = partition_of({"partition": 0, "topic": FROM, "topic_id": "t"}, FROM)
    start, stop = (position_of({"offset": n}, FROM) for n in (7, 8))
    with pytest.raises(InvalidError, match="offset 7") as refused:
        next(TopicReader(Reader()).read(Stretch(of, start, stop, 1), deadline=1.0))

    assert "P816" == refused.value.code


def test_a_target_that_went_away_is_named(world):
    world.send(0, "a")
    world.cluster.topic(INTO).partitions.clear()

    assert "P813" == code_of(world)


def test_a_tail_that_is_too_long_to_look_through(world, monkeypatch):
    published_once(world)
    world.coordinator.forget("penstock-orders-0")
    for module in (resuming, deciding):
        monkeypatch.setattr(module, "TAIL_BYTES_MAX", -1)

    assert "P809" == code_of(world)
    assert "" == code_of(world, accept=frozenset({Accepted.TAIL}))


@pytest.mark.parametrize("seed", range(150))
def test_any_history_of_tasks_publishes_each_record_once_and_in_order(seed):
    """Runs of one to three tasks, and of the own sender, in turn: ids that are no more are fenced."""
    chance, world = random.Random(seed), PublishingWorld()
    world.chosen = lambda: chance.choice([{}, *map(by_library, (1, 2, 3))])
    play(world, chance)


def test_an_epoch_that_came_to_nothing_is_followed_by_one_of_half_as_many_rows(world):
    """As where the time of a transaction was over: KIP-618 advises it, here it is done."""
    world.rows_max = 8
    world.send(0, *map(str, range(8)))
    left = [2]

    def act(step: str) -> str:
        if step == "work" and left[0]:
            left[0] -= 1
            return "twice"
        return ""

    run = world.run(act=act)
    counts = [each.rows for each in world.events if isinstance(each, RowsPublished)]
    assert (None, [2, 6]) == (run.error, counts)
    assert world.sent(0) == world.published(0)


def test_a_position_that_moves_without_rows_is_written_once(world):
    """As behind markers of transactions, whose history may end (KAFKA-14727)."""
    world.send(0, "a")
    publisher = running(world)
    first = publisher.transactions
    world.cluster.partition(FROM, 0).add(None, Transaction(committed=True))

    assert publisher.step()
    assert first + 1 == publisher.transactions
    assert [b"a"] == world.published(0)
    world.clock.advance(61)
    assert not publisher.step()


def test_a_publication_that_polls_waits_for_no_interval(world):
    world.send(0, "a")
    publisher = world.publisher("stopped", polls=True, interval_seconds=3600.0)
    assert publisher.step()
    assert publisher.step()
    world.send(0, "b")

    assert publisher.step()
    assert [b"a", b"b"] == world.published(0)
