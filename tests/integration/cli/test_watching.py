"""`penstock status --watch` polls until it is interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.integration.cli.shop import Shop, problem
from tests.integration.cli.within import land, within

from penstock.app.assembly.assembly import open_store
from penstock.app.assembly.process import SystemClock
from penstock.app.inspect.reported import status_file
from penstock.app.inspect.status import status
from penstock.cli.status import keep_showing
from penstock.core.claims import Generation
from penstock.observe.snapshot import State
from penstock.ports.store import Owner
from penstock.spec.load import load


class Impatient:
    """A clock whose last wait is interrupted; something happens during each before."""

    def __init__(self, *happens: Callable[[], None]) -> None:
        self._turns = [*happens]
        self.now_ms, self.monotonic = SystemClock().now_ms, SystemClock().monotonic

    def wait(self, _seconds: float) -> None:
        if not self._turns:
            raise KeyboardInterrupt
        self._turns.pop(0)()


@pytest.mark.parametrize("as_json", [True, False])
def test_what_lands_meanwhile_is_seen_at_the_next_poll(shop: Shop, capsys, as_json: bool) -> None:
    shop.send(0, 70)
    pipeline = load(shop.path)
    with pytest.raises(KeyboardInterrupt):
        keep_showing(pipeline, Impatient(lambda: land(shop)), as_json=as_json)

    out = capsys.readouterr().out
    if not as_json:
        assert "lake.shop.orders" in out
        return
    polls = [json.loads(line) for line in out.splitlines()]
    lags = [poll["tables"]["lake.shop.orders"]["lag_records"] for poll in polls]
    assert ([70, 0], None) == (lags, polls[0]["stalled"])


@pytest.mark.parametrize("as_json", [True, False])
def test_a_check_that_fails_is_reported_and_not_the_last(shop: Shop, capsys, as_json: bool) -> None:
    """What is not there for a moment is the status file; brokers are asked by the same poll."""
    shop.send(0, 5)
    pipeline = load(shop.path)
    in_the_way = status_file(pipeline)
    clock = Impatient(lambda: in_the_way.mkdir(parents=True), in_the_way.rmdir)
    with pytest.raises(KeyboardInterrupt):
        keep_showing(pipeline, clock, as_json=as_json)

    out = capsys.readouterr().out
    if not as_json:  # what is no terminal gets the last poll alone
        assert "lake.shop.orders" in out
        return
    first, failed, last = (json.loads(line) for line in out.splitlines())
    assert "P591" == failed["error"]["code"]
    assert first["tables"] == last["tables"]


def test_records_that_retention_deleted_are_no_lag_of_a_table_that_has_not_begun(
    shop: Shop,
) -> None:
    shop.send(0, 50)
    shop.cluster.delete_before(shop.topic, 0, 30)

    tables = status(load(shop.path), SystemClock()).snapshot.tables.values()
    assert [20, 20] == [each.lag_records for each in tables]


def test_before_its_first_run_a_pipeline_is_not_said_to_have_stopped_a_moment_ago(
    shop: Shop,
) -> None:
    found = status(load(shop.path), SystemClock())

    assert (False, State.STOPPED, 0) == (
        found.running,
        found.snapshot.state,
        found.snapshot.updated_ms,
    )


def test_a_process_that_holds_the_pipeline_runs_whatever_its_status_file_says(shop: Shop) -> None:
    """It may be on another host, or not be able to write the file."""
    shop.send(0, 5)
    assert 0 == within("run", shop.path, "--until-caught-up", "--json").code
    pipeline, now_ms = load(shop.path), SystemClock().now_ms()
    store = open_store(pipeline)
    owner = Owner("another", "elsewhere", 1)
    claim = store.claim(
        *(pipeline.name, owner),
        above=Generation(0),
        now_ms=now_ms,
        alive_until_ms=now_ms + 600_000,
        takeover=False,
    )
    held = status(pipeline, SystemClock())
    status_file(pipeline).unlink()
    untold = status(pipeline, SystemClock())
    store.release(pipeline.name, claim)
    released = status(pipeline, SystemClock())
    store.close()

    assert [(True, State.RUNNING), (True, State.RUNNING), (False, State.STOPPED)] == [
        (each.running, each.snapshot.state) for each in (held, untold, released)
    ]


def test_a_group_follows_what_has_landed_and_one_with_members_is_refused(shop: Shop) -> None:
    shop.spec["kafka"]["mirror_group"] = "shop-landed"
    shop.send(0, 70)
    assert 0 == shop.run().code

    where = {"bootstrap.servers": shop.spec["kafka"]["brokers"], "group.id": "shop-landed"}
    consumer = Consumer(where)
    topic = shop.spec["kafka"]["topics"][0]
    partitions = [*consumer.list_topics(topic).topics[topic].partitions]
    asked = consumer.committed([TopicPartition(topic, each) for each in partitions])
    ends = [consumer.get_watermark_offsets(each)[1] for each in asked]
    assert (70, ends) == (sum(ends), [each.offset for each in asked])
    assert {"penstock shop"} == {each.metadata for each in asked}

    consumer.subscribe([topic])
    for _ in range(600):
        consumer.poll(0.1)
        if consumer.assignment():
            break
    refused = shop.call("run", "--until-caught-up", "--json")
    assert (2, "P213") == (refused.code, problem(refused)[0])
    consumer.close()
    shop.send(70, 10)
    assert 0 == shop.run().code
