"""KIP-618 by its own scenarios: those of Kafka's ExactlyOnceSourceIntegrationTest, by their number.

Its tests, in order: 1 preflight validation, 2 poll boundary, 3 interval boundary, 4 connector
boundary, 5 fenced leader, 6 reconfiguration, 7 no fencing possible, 8 separate offsets topic,
9 producing to the offsets topic. 7 needs permissions, and is in
`integration/kafka/test_security.py`.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from tests.integration.cli.test_publish import PARTITIONS, POINTS, Mirror
from tests.processes.broker import WAIT_SECONDS_MAX, Cluster
from tests.processes.process import KILLED

from penstock.testing.sent import Sent

LIBRARY = {"producer": "librdkafka", "tasks": 2}


@pytest.fixture(params=["own", "library"])
def mirror(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Mirror]:
    found = Mirror(cluster, tmp_path)
    found.spec["publishing"] = {**LIBRARY} if request.param == "library" else {"producer": "own"}
    return found


@pytest.fixture
def by_library(cluster: Cluster, tmp_path: Path) -> Mirror:
    found = Mirror(cluster, tmp_path)
    found.spec["publishing"] = {**LIBRARY}
    return found


def stranger(mirror: Mirror, task: int) -> Producer:
    """Return a producer that has taken the id of a task."""
    settings = {
        "bootstrap.servers": mirror.cluster.bootstrap,
        "transactional.id": f"penstock-m{mirror.number}-{task}",
        "log_level": 0,
    }
    found = Producer(settings)
    found.init_transactions(WAIT_SECONDS_MAX)
    return found


def test_1_what_cannot_be_exactly_once_is_refused_before_anything_runs(mirror):
    for publishing, code in (
        ({"producer": "own", "tasks": 2}, "P879"),
        ({"producer": "own", "exactly_once": "off"}, "P881"),
    ):
        mirror.spec["publishing"] = publishing
        checked = mirror.call("validate")
        assert (2, True) == (checked.code, code in checked.err + checked.out)

    mirror.spec["publishing"] = {**LIBRARY}
    planned = mirror.call("plan")
    assert "exactly once: librdkafka, 2 tasks" in planned.out
    mirror.spec["publish"][0]["transaction"] = {"timeout": "16m"}
    mirror.send(1)
    refused = mirror.call("publish", "--until-caught-up")
    assert (2, True) == (refused.code, "P283" in refused.err)


def test_2_a_transaction_is_what_there_is_at_a_poll(mirror):
    mirror.spec["publish"][0]["transaction"] = {"boundary": "poll", "interval": "1h"}
    with mirror.driver() as driver:
        for turn in range(1, 3):
            mirror.send(10)
            driver.wait_until(mirror.is_exact, f"poll {turn} is published")
        driver.send(signal.SIGTERM)
        assert 0 == driver.end().code


def test_3_transactions_end_by_an_interval(mirror):
    with mirror.driver() as driver:
        for count in (10, 20):
            mirror.send(10)
            driver.wait_until(
                lambda count=count: sum(map(len, mirror.read(mirror.into).values())) == 2 * count,
                "all are published",
            )
        driver.send(signal.SIGTERM)
        assert 0 == driver.end().code

    assert mirror.is_exact()
    audit = mirror.call("audit", "--count", "--json")
    assert (0, []) == (audit.code, audit.json["publications"][0]["breaks"]), audit.out
    assert audit.json["publications"][0]["transactions"] >= 2


FIBONACCI = """
import penstock

@penstock.source(boundaries=True)
def numbers(at, *, count):
    n = at["n"] if at else 0
    while n < count:
        n += 1
        ends = {1: "commit", 2: "abort", 3: "commit", 5: "commit", 8: "abort", 13: "commit"}
        ends |= {21: "commit", 34: "abort", 55: "commit"}
        yield penstock.Batch([{"n": n}], {"n": n}, boundary=ends.get(n))
"""
"""As Kafka's own test: a transaction ends at each number of Fibonacci, and even ones abort."""


def test_4_a_source_commits_and_aborts_its_transactions(mirror):
    (mirror.directory / "fibonacci.py").write_text(FIBONACCI)
    source = {"source": "fibonacci:numbers", "options": {"count": 60}}
    rule = {"from": source, "transaction": {"boundary": "connector", "or_records": 30}}
    mirror.spec["publish"][0] |= rule
    killed = mirror.call("publish", "--until-caught-up", PENSTOCK_FAULTS="send.after:3")
    assert KILLED == killed.code, killed.err
    done = mirror.call("publish", "--until-caught-up", "--takeover", "--json")

    assert 0 == done.code, done.err
    found = sorted(
        json.loads(value)["n"] for own in mirror.read(mirror.into).values() for _, value, *_ in own
    )
    committed = [1, 3, *range(4, 6), *range(9, 14), *range(14, 22), *range(35, 56)]
    assert committed == found
    (audit,) = mirror.call("audit", "--json").json["publications"]
    assert ([], 9) == (audit["breaks"], audit["transactions"])

    del mirror.spec["publish"][0]["transaction"]["or_records"]
    mirror.spec["publish"][0]["from"] = {"topic": mirror.source}
    refused = mirror.call("validate", "--offline")
    assert (2, True) == (refused.code, "P292" in refused.err + refused.out)


def test_5_a_run_whose_id_was_taken_goes_on_where_no_other_has_begun(mirror):
    mirror.spec["publishing"] |= {"tasks": 1}  # of several one may have no partition, and idle
    with mirror.driver() as driver:
        mirror.send(10)
        driver.wait_for("RowsPublished")
        taker = stranger(mirror, 0)
        mirror.send(10)
        driver.wait_until(mirror.is_exact, "all are published")
        driver.send(signal.SIGTERM)
        assert 0 == driver.end().code

    taker.begin_transaction()
    taker.produce(mirror.into, b"late")
    with pytest.raises(KafkaException, match=r"fenced|epoch"):
        taker.commit_transaction(WAIT_SECONDS_MAX)
    assert 0 == mirror.call("audit", "--count").code


def test_6_ids_of_tasks_that_are_no_more_are_fenced(by_library):
    mirror, left = by_library, []
    for tasks in (3, 1, 2):
        mirror.spec["publishing"] = {"producer": "librdkafka", "tasks": tasks}
        mirror.send(5)
        done = mirror.call("publish", "--until-caught-up", "--json")
        assert 0 == done.code, done.err
        for each in left:
            with pytest.raises(KafkaException, match=r"fenced|epoch"):
                each.commit_transaction(WAIT_SECONDS_MAX)
        left = [stranger(mirror, task) for task in range(1, tasks)]
        for each in left:  # a worker of a former task, about to end
            each.begin_transaction()
            each.produce(mirror.into, b"late", partition=0)
            each.flush(WAIT_SECONDS_MAX)

    mirror.spec["publishing"] = {}
    assert 1 == mirror.cluster.open_transactions(mirror.into, range(PARTITIONS))
    assert 0 == mirror.call("publish", "--once").code  # the own sender, one task; nothing waits
    assert 0 == mirror.cluster.open_transactions(mirror.into, range(PARTITIONS))
    for each in left:
        with pytest.raises(KafkaException, match=r"fenced|epoch"):
            each.commit_transaction(WAIT_SECONDS_MAX)
    assert mirror.is_exact()
    assert 0 == mirror.call("audit", "--count").code


def test_8_an_offsets_topic_of_its_own_is_created_compacted(mirror):
    mirror.spec["publish"][0]["offsets"] = f"{mirror.into}.positions"
    mirror.send(10)
    done = mirror.call("publish", "--until-caught-up")

    assert 0 == done.code, done.err
    assert mirror.is_exact()
    assert any(b'"ledger"' in key for key in mirror.offsets(f"{mirror.into}.positions"))
    examined = mirror.call("doctor", "--json")
    (found,) = [
        each
        for each in examined.json["checks"]
        if each["check"] == "topics" and each["subject"].endswith(".positions")
    ]
    assert "1 partition, compact" in found["message"]


def test_9_a_publication_into_its_own_offsets_topic_is_refused(mirror):
    mirror.spec["publish"][0]["offsets"] = mirror.into
    checked = mirror.call("validate")

    assert (2, True) == (checked.code, "P821" in checked.err + checked.out)


def test_tasks_that_are_killed_anywhere_publish_each_record_once(by_library):
    mirror = by_library
    for point in POINTS[1::2]:
        mirror.send(40)
        killed = mirror.call("publish", "--until-caught-up", PENSTOCK_FAULTS=f"{point}:2")
        assert KILLED == killed.code, (point, killed.err)
    done = mirror.call("publish", "--until-caught-up", "--takeover")
    audit = mirror.call("audit", "--count", "--json")

    assert 0 == done.code, done.err
    assert mirror.is_exact()
    (found,) = audit.json["publications"]
    assert (0, [], 40 * PARTITIONS * len(POINTS[1::2])) == (
        audit.code,
        found["breaks"],
        found["rows"],
    )


def test_without_transactions_each_record_is_there_at_least_once(by_library):
    mirror = by_library
    mirror.spec["publishing"] = {"exactly_once": "off"}
    mirror.send(40)
    assert "at least once" in mirror.call("plan").out
    killed = mirror.call("publish", "--until-caught-up", PENSTOCK_FAULTS="ledger.before:2")
    assert KILLED == killed.code
    done = mirror.call("publish", "--until-caught-up", "--takeover")
    assert 0 == done.code, done.err
    sent, there = mirror.read(mirror.source), mirror.read(mirror.into)
    assert all(record in there[part] for part, own in sent.items() for record in own)
    assert sum(map(len, there.values())) > sum(map(len, sent.values()))
    audit = mirror.call("audit", "--count")
    assert (2, True) == (audit.code, ": sent without transactions" in audit.out), audit.out
    assert "BROKEN" not in audit.out

    mirror.spec["publishing"] = {}
    mirror.send(5)
    assert 0 == mirror.call("publish", "--until-caught-up").code
    audit = mirror.call("audit", "--count", "--json")
    (found,) = audit.json["publications"]
    assert (0, [], 5 * PARTITIONS) == (audit.code, found["breaks"], found["rows"])
    again = mirror.read(mirror.into)
    assert [len(there[part]) + 5 for part in there] == [len(again[part]) for part in again]
    mirror.cluster.send(mirror.into, 0, [Sent(b"of a zombie of `off`")])  # no fence reaches it
    assert len(again[0]) + 1 == len(mirror.read(mirror.into)[0])
