"""Files, a query and a source of one's own, published by real brokers' transactions, and killed."""

from __future__ import annotations

import itertools
import json
import signal
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import yaml
from tests.integration.cli.test_publish import Mirror
from tests.processes.broker import Cluster
from tests.processes.process import KILLED, Driver
from tests.servers.warm import WarmProcess, warm_penstock

from penstock.testing.sent import Sent

NUMBERS = itertools.count()
MODULE = """
import penstock

@penstock.source(replay="range")
def numbers(at, until, *, count):
    begun, stop = at["n"] if at else 0, until["n"] if until else count
    for n in range(begun, stop, 10):
        behind = min(n + 10, stop)
        rows = [{"k": f"k{each % 7}", "n": each} for each in range(n, behind)]
        yield penstock.Batch(rows=rows, next={"n": behind})
"""


class Fed(Mirror):
    """A source, and the spec that publishes it."""

    def __init__(self, cluster: Cluster, directory: Path, source: dict[str, object]) -> None:
        super().__init__(cluster, directory)
        self.spec["publish"][0] |= {"from": source, "key": "k"}  # type: ignore[index]

    def numbers(self) -> list[int]:
        """Read what is published: of each key in order, all in one list, sorted."""
        found: dict[bytes, list[int]] = {}
        for records in self.read(self.into).values():
            for key, value, *_ in records:
                found.setdefault(key, []).append(json.loads(value)["n"])
        assert all(each == sorted(each) for each in found.values())
        return sorted(itertools.chain(*found.values()))


def made(kind: str, cluster: Cluster, directory: Path) -> Fed:
    """Make 150 rows, of which a transaction holds 60 or so."""
    if kind == "own":
        (directory / "own_feed.py").write_text(MODULE)
        source = {"source": "own_feed:numbers", "options": {"count": 150}}
        return Fed(cluster, directory, source)
    if kind == "sql":
        with closing(sqlite3.connect(directory / "shop.db")) as connection, connection:
            connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, k TEXT)")
            connection.executemany(
                "INSERT INTO t VALUES (?, ?)", [(n, f"k{n % 7}") for n in range(150)]
            )
        query = {"query": "SELECT * FROM t", "database": "sqlite:///./shop.db", "cursor": ["n"]}
        return Fed(cluster, directory, {**query, "append_only": True})
    (directory / "drop").mkdir()
    for number in range(3):
        rows = [{"k": f"k{n % 7}", "n": n} for n in range(50 * number, 50 * number + 50)]
        text = "".join(json.dumps(each) + "\n" for each in rows)
        (directory / "drop" / f"{number}.jsonl").write_text(text)
    columns = {"k": "string", "n": "long"}
    source = {"files": "./drop/*.jsonl", "format": "json", "columns": columns, "order": "name"}
    return Fed(cluster, directory, source)


def test_a_file_of_a_connector_of_connect_is_gone_on_with(cluster: Cluster, tmp_path: Path) -> None:
    """The connector stopped behind three lines, which are in the topic: no line is there twice."""
    fed = Fed(cluster, tmp_path, {})
    lines = [f"line {number}" for number in range(8)]
    (tmp_path / "test.txt").write_text("".join(f"{each}\n" for each in lines[:3]))
    cluster.send(fed.into, 0, [Sent(each.encode()) for each in lines[:3]])
    (tmp_path / "file.properties").write_text(
        f"name=local-file-source\nconnector.class=FileStreamSource\ntasks.max=1\nfile=test.txt\n"
        f"topic={fed.into}\nbootstrap.servers={cluster.bootstrap}\n"
        "value.converter=org.apache.kafka.connect.storage.StringConverter\n"
    )
    spec = tmp_path / "penstock.yaml"
    config = ("--from-config", tmp_path / "file.properties")
    drafted = warm_penstock("init", spec, *config, environment={}, directory=tmp_path)
    assert (2, True) == (drafted.code, "P175" in drafted.err), drafted.err
    fed.spec = yaml.safe_load(spec.read_text())
    (question,) = fed.spec.pop("undecided")
    assert "publish[].from.start" in question["decide"]
    fed.spec |= {"spark": {"master": "inline"}}
    assert 0 == fed.call("seek", "local-file-source", "latest", "--yes", "local-file-source").code

    with (tmp_path / "test.txt").open("a") as file:
        file.writelines(f"{each}\n" for each in lines[3:])
    run = fed.call("publish", "--until-caught-up")
    assert 0 == run.code, run.err
    found = [value.decode() for own in fed.read(fed.into).values() for _, value, *_ in own]
    assert sorted(found) == lines
    assert 0 == fed.call("audit", "--count").code


def made_rows(kind: str, count: int) -> list[dict[str, object]]:
    """Return the first rows of a source, in the order of its columns."""
    rows = [{"k": f"k{n % 7}", "n": n} for n in range(count)]
    return [dict(reversed(each.items())) for each in rows] if kind == "sql" else rows


@pytest.mark.parametrize("kind", ["own", "files", "sql"])
def test_a_source_is_published_once_though_its_process_is_killed(cluster, tmp_path, kind):
    fed = made(kind, cluster, tmp_path)
    planned = fed.call("plan")
    assert planned.code == 0, planned.err
    assert "in the next batch" in planned.out
    peeked = fed.call("peek", "-n", "3", "--json")
    assert peeked.code == 0, peeked.err
    assert [(each["text"], each["outcome"]) for each in peeked.json] == [
        (json.dumps(each, separators=(",", ":")), "published") for each in made_rows(kind, 3)
    ]

    for point in ("send.after", "end.after"):
        run = fed.call("publish", "--until-caught-up", PENSTOCK_FAULTS=point)
        assert run.code == KILLED, run.err
    run = fed.call("publish", "--until-caught-up", "--takeover")
    assert run.code == 0, run.err
    assert fed.numbers() == list(range(150))

    audit = fed.call("audit", "--count")
    assert audit.code == 0, audit.out + audit.err
    assert "compared with the source: 150 records" in audit.out
    status = fed.call("status")
    assert "lag: 0 records" in status.out


HANGING = """
from pathlib import Path
import time
import penstock

@penstock.source()
def numbers(at):
    if at is None:
        Path("asked").touch()
        while not Path("answers").exists():
            time.sleep(0.05)
        yield penstock.Batch([{"k": "k", "n": 1}], {"n": 1})
"""


def test_a_source_that_does_not_answer_holds_up_its_own_publication_alone(cluster, tmp_path):
    """Both are asked to stop, one of them ends; a second signal ends the process."""
    (tmp_path / "hanging_feed.py").write_text(HANGING)
    fed = Fed(cluster, tmp_path, {"source": "hanging_feed:numbers"})
    other = Mirror(cluster, tmp_path)
    fed.spec["publish"] += other.spec["publish"]
    with Driver(
        fed.save(), start=partial(WarmProcess, directory=tmp_path), verb=("publish", "--spec")
    ) as driver:
        driver.wait_until((tmp_path / "asked").exists, "the source is asked")
        for count in range(1, 3):
            other.send(10)
            driver.wait_for("RowsPublished", count)
        driver.send(signal.SIGTERM)
        driver.wait_for("PublicationStopped")
        assert driver.running
        driver.send(signal.SIGTERM)
        assert 130 == driver.end().code

    (tmp_path / "answers").touch()
    run = fed.call("publish", "--until-caught-up", "--takeover")
    assert 0 == run.code, run.err
    assert [1] == fed.numbers()
    assert other.is_exact()
