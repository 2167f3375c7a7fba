"""Mirrors of real topics: killed anywhere, read by librdkafka, proved by the audit."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

import pytest
import yaml
from tests.integration.cli.published import committed
from tests.integration.cli.scrape import documented, names_of, page
from tests.processes.broker import Cluster, wait_until
from tests.processes.process import KILLED, Driver, Finished
from tests.servers.warm import WarmProcess, warm_penstock

from penstock.testing.sent import Sent

NUMBERS = itertools.count()
PARTITIONS = 2
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class Mirror:
    """A spec of one publication, and its topics."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster, self.number = cluster, next(NUMBERS)
        self.source, self.into = f"mirror{self.number}.from", f"mirror{self.number}.into"
        for topic in (self.source, self.into):
            cluster.create(topic, PARTITIONS)
        rule = {"name": f"m{self.number}", "from": {"topic": self.source}, "into": self.into}
        self.spec = {
            "name": "shop",
            "kafka": {"brokers": cluster.bootstrap},
            "publish": [{**rule, "transaction": {"interval": "100ms", "or_records": 60}}],
            "spark": {"master": "inline"},
        }
        self.directory = directory

    def call(self, command: str, *words: str, **environment: str) -> Finished:
        """Run a command on the spec."""
        path = self.save()
        named = ["--spec", path] if command in ("publish", "audit", "seek", "replay") else [path]
        return warm_penstock(
            command, *named, *words, environment=environment, directory=self.directory
        )

    def save(self) -> Path:
        """Write the spec."""
        path = self.directory / "penstock.yaml"
        path.write_text(yaml.safe_dump(self.spec))
        return path

    def driver(self, *words: str) -> Driver:
        """Start to publish, until asked to stop."""
        return Driver(self.save(), *words, start=WarmProcess, verb=("publish", "--spec"))

    def make_again(self, topic: str, **config: str) -> None:
        """Create a topic again, with settings."""
        self.cluster.delete(topic)
        self.cluster.create(topic, PARTITIONS, **config)

    def send(self, count: int) -> None:
        """Send records of all kinds."""
        for partition in range(PARTITIONS):
            kinds = itertools.cycle(KINDS)
            self.cluster.send(self.source, partition, [next(kinds) for _ in range(count)])

    def is_exact(self) -> bool:
        """Return whether the target has what the source has, in the same order."""
        return self.read(self.source) == self.read(self.into)

    def offsets(self, topic: str) -> dict[bytes, bytes]:
        """Read the last value of each key of an offsets topic."""
        read = self.read(topic, partitions=1)[0]
        return {key: value for key, value, *_ in read}

    def read(
        self, topic: str, *, partitions: int = PARTITIONS
    ) -> dict[int, list[tuple[object, ...]]]:
        """Read the committed records of a topic."""
        return committed(self.cluster, topic, partitions=partitions)


KINDS = [
    Sent(b"plain", key=b"k", timestamp_ms=1_700_000_000_000),
    Sent(b"", key=b"", timestamp_ms=1),
    Sent(None, key=b"gone", timestamp_ms=2),
    Sent(b"no key", timestamp_ms=3),
    Sent(b"x" * 70_000, key=b"large", timestamp_ms=4),
    Sent(b"h", headers=(("a", b"1"), ("a", None), ("b", b"")), timestamp_ms=5),
]


@pytest.fixture
def mirror(cluster: Cluster, tmp_path: Path) -> Mirror:
    return Mirror(cluster, tmp_path)


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_in_the_mirror_what_is_in_the_topic(mirror, codec):
    mirror.spec["publish"][0]["compression"] = codec
    mirror.send(50)
    done = mirror.call("publish", "--until-caught-up", "--json")

    assert 0 == done.code, done.err
    assert 2 * 50 == done.json["publications"][0]["rows"]
    assert mirror.read(mirror.source) == mirror.read(mirror.into)


def test_settings_that_the_brokers_do_not_take_are_the_spec_s_fault(mirror):
    rule = mirror.spec["publish"][0]
    rule |= {"into": "typo", "topic": {"create": True, "config": {"retntion.ms": "1000"}}}
    refused = mirror.call("publish", "--until-caught-up")

    assert (2, True) == (refused.code, "P890" in refused.err), refused.err
    assert "retntion.ms" in refused.err
    assert f"beside into of the publication m{mirror.number}" in refused.err


def test_a_seek_shows_what_it_would_do_and_the_audit_holds_after_it(mirror):
    mirror.send(30)
    assert 0 == mirror.call("publish", "--until-caught-up").code
    name, place = f"m{mirror.number}", f"{mirror.source}:1:10"
    shown = mirror.call("seek", name, place)
    assert 0 == shown.code, shown.err
    assert "20 records are published again" in shown.err
    refused = mirror.call("replay", name, place)
    assert (2, True) == (refused.code, "P884" in refused.err), refused.err
    assert 0 == mirror.call("seek", name, place, "--yes", "shop").code
    again = mirror.call("publish", "--until-caught-up", "--json")
    assert 20 == again.json["publications"][0]["rows"]
    audit = mirror.call("audit", "--count", "--json")

    assert (0, []) == (audit.code, audit.json["publications"][0]["breaks"]), audit.out
    (sought,) = audit.json["publications"][0]["sought"]
    assert f"{mirror.source}[1] goes on" in sought
    assert "20 records are published again" in sought
    source, target = mirror.read(mirror.source), mirror.read(mirror.into)
    assert source[0] == target[0]
    assert source[1] + source[1][10:] == target[1]

    mirror.make_again(mirror.into)
    lost = mirror.call("audit")
    assert (4, True) == (lost.code, "P808" in lost.err + lost.out), lost.out
    shown = mirror.call("seek", name, place)
    assert f"the topic {mirror.into} lost what {name} published" in shown.err


POINTS = ["send.before", "send.after", "ledger.before", "ledger.after", "end.before", "end.after"]


def test_a_mirror_that_is_killed_anywhere_has_each_record_once(mirror):
    for point in POINTS:
        mirror.send(40)
        killed = mirror.call("publish", "--until-caught-up", PENSTOCK_FAULTS=f"{point}:2")
        assert KILLED == killed.code, (point, killed.err)
    done = mirror.call("publish", "--until-caught-up", "--takeover")
    audit = mirror.call("audit", "--count", "--json")

    assert 0 == done.code, done.err
    assert mirror.read(mirror.source) == mirror.read(mirror.into)
    (found,) = audit.json["publications"]
    assert (0, [], 40 * PARTITIONS * len(POINTS)) == (
        audit.code,
        found["breaks"],
        found["rows"],
    )


def test_an_audit_finds_a_record_that_was_doubled(mirror):
    """By hand: the offsets topic is put back to where it was, and the start is told to go on."""
    mirror.send(10)
    mirror.call("publish", "--until-caught-up")
    name = mirror.spec["publish"][0]["name"]
    offsets = f"penstock-{name}-offsets"
    before = mirror.offsets(offsets)
    mirror.send(10)
    mirror.call("publish", "--until-caught-up")
    mirror.cluster.send(offsets, 0, [Sent(value, key=key) for key, value in before.items()])

    stopped = mirror.call("publish", "--until-caught-up", "--json")
    again = mirror.call("publish", "--until-caught-up", "--accept", "ledger")
    audit = mirror.call("audit", "--json")

    assert (4, "P810") == (stopped.code, stopped.json["publications"][0]["error"]["code"])
    assert 0 == again.code, again.err
    assert 4 == audit.code
    assert "have no receipt" in audit.json["publications"][0]["breaks"][0]["message"]


def test_a_target_that_takes_small_batches_and_writes_them_anew(mirror):
    mirror.make_again(mirror.into, max_message_bytes="20000", compression_type="gzip")
    mirror.spec["publish"][0] |= {"compression": "none", "transaction": {"interval": "100ms"}}
    records = [Sent(bytes([n % 251]) * 900, timestamp_ms=n) for n in range(200)]
    mirror.cluster.send(mirror.source, 0, records)
    done = mirror.call("publish", "--until-caught-up")
    audit = mirror.call("audit", "--count", "--json")

    assert 0 == done.code, done.err
    assert 1 == done.err.count("given up")
    assert mirror.read(mirror.source) == mirror.read(mirror.into)
    (found,) = audit.json["publications"]
    assert (0, [], 200) == (audit.code, found["breaks"], found["rows"])
    assert "which the brokers wrote anew" in found["not_compared"][0]


@pytest.mark.parametrize(
    ("producer", "named"),
    [
        ("own", "record 2 of those from"),
        ("librdkafka", "one of 2 records that begin with this one: record 1 of those from"),
    ],
)
def test_a_record_that_the_target_does_not_take_is_named(mirror, producer, named):
    mirror.spec["publishing"] = {"producer": producer}
    mirror.make_again(mirror.into, cleanup_policy="compact")
    mirror.cluster.send(mirror.source, 1, [Sent(b"a", key=b"k"), Sent(b"no key")])
    done = mirror.call("publish", "--until-caught-up")

    assert 2 == done.code
    assert "P816" in done.err
    assert f"{named} 0 on" in done.err
    status = mirror.call("status")
    assert (0, True) == (status.code, ": P816  " in status.out), status.out

    mirror.make_again(mirror.into)
    assert 0 == mirror.call("publish", "--until-caught-up").code
    assert "P816" not in mirror.call("status").out


def test_an_audit_compares_what_is_still_there(mirror):
    mirror.make_again(mirror.into, message_timestamp_type="LogAppendTime")
    for _ in range(2):
        mirror.send(10)
        assert 0 == mirror.call("publish", "--until-caught-up").code
    mirror.cluster.delete_before(mirror.source, 0, 5)
    mirror.cluster.delete_before(mirror.into, 1, 5)
    audit = mirror.call("audit", "--count", "--json")

    (found,) = audit.json["publications"]
    assert (0, [], 20) == (audit.code, found["breaks"], found["rows"])
    assert 5 == len(found["not_compared"])


def test_an_audit_compares_what_compaction_left(mirror):
    rules = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0.0"}
    mirror.make_again(mirror.into, **rules)
    for turn in range(3):  # the last segment is never compacted
        values = [Sent(b"%d" % n, key=b"k%d" % (n % 3)) for n in range(10 * turn, 10 * turn + 10)]
        mirror.cluster.send(mirror.source, 0, values)
        assert 0 == mirror.call("publish", "--until-caught-up").code
    wait_until(lambda: len(mirror.read(mirror.into)[0]) < 20, "compaction of the target")
    audit = mirror.call("audit", "--count", "--json")

    (found,) = audit.json["publications"]
    assert (0, [], 30) == (audit.code, found["breaks"], found["rows"])
    assert "from which compaction takes them" in found["not_compared"][0]


def test_plan_says_what_publish_does(mirror):
    mirror.send(50)
    planned = mirror.call("plan", "--json")
    done = mirror.call("publish", "--until-caught-up", "--json")
    status = mirror.call("status", "--json")

    assert 0 == mirror.call("validate").code
    (view,) = planned.json["publications"]
    (ended,) = done.json["publications"]
    assert (True, 100, 2) == (view["begins"], view["backlog"], view["transactions"])
    assert (100, 2) == (ended["rows"], ended["transactions"])
    (stands,) = status.json["publications"]
    assert (2, 100, 0) == (stands["epoch"], stands["published"], stands["backlog"])


def test_a_topic_that_is_not_there_is_named(mirror):
    mirror.spec["publish"][0]["into"] = "nowhere"
    planned, done = mirror.call("plan"), mirror.call("publish", "--until-caught-up")

    assert (2, 2) == (planned.code, done.code)
    assert "P205" in planned.out + planned.err
    assert "nowhere" in done.err
    assert f"topic nowhere, into which m{mirror.number} publishes, does not exist" in done.err


def test_the_endpoint_of_publications_shows_what_the_page_names(mirror: Mirror) -> None:
    mirror.send(10)
    with mirror.driver("--metrics", "127.0.0.1:0") as driver:
        url = driver.wait_for("MetricsServed").data["url"]
        published = f'penstock_rows_published_total{{publication="m{mirror.number}"}} 20.0'
        driver.wait_until(lambda: published in page(url), "all are counted")
        text = page(url)
        driver.send(signal.SIGTERM)
        assert 0 == driver.end().code

    assert documented("publishing") == names_of(text)
    assert f'penstock_publication_lag_rows{{publication="m{mirror.number}"}} 0.0' in text


def test_a_topic_that_is_missing_is_created_and_found_filled_under_another_name(mirror):
    mirror.send(10)
    topic = {"create": True, "partitions": 3, "config": {"retention.ms": -1}}
    (rule,) = mirror.spec["publish"]
    former = rule["name"]
    rule |= {"into": f"{mirror.into}.new", "topic": topic}
    planned = mirror.call("plan", "--json")
    done = mirror.call("publish", "--until-caught-up", "--json")

    (view,) = planned.json["publications"]
    assert (0, 3, 20) == (
        planned.code,
        view["creates"][view["into"]]["partitions"],
        view["backlog"],
    )
    assert 0 == done.code, done.err
    found = mirror.read(f"{mirror.into}.new", partitions=3)
    assert [10, 10, 0] == [len(found[number]) for number in range(3)]

    rule["name"] = renamed = f"{former}b"
    again = mirror.call("plan")
    said = f"publication {former} has published into {mirror.into}.new; this one begins anew"
    assert (0, True) == (again.code, said in again.out), again.out + again.err
    assert f"begins, as penstock-{renamed}-0" in again.out
