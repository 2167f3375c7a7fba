"""The world of a topic that is read as rows: filtered, changed, and published into another one.

The oracle says in plain Python, record by record, what a reader of the target has to find.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.story.publishing import FROM, INTO, PARTITIONS
from tests.story.publishing_rows import RowsWorld

from penstock.connectors.memory.cluster import Message
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.core.schema import Field, Kind, Struct
from penstock.publishing.messages import Encoding, job_from_json, result_to_json
from penstock.publishing.row_worker import RowWorker
from penstock.publishing.topic_rows import DELETED, HEADERS, RecordRules, TopicRowReader
from penstock.publishing.topic_source import TopicSource
from penstock.rows.encode.rules import MessageRules

RECORDS = RecordRules(
    Struct((Field("id", Kind.LONG), Field("v", Kind.STRING))),
    ("_kafka_timestamp", "_kafka_key", HEADERS),
    {"format": "json", "tombstones": "quarantine"},
)
RULES = MessageRules(
    key=("_kafka_key",),
    where="v <> 'left out'",
    delete_when="v = 'closed'",
    timestamp="_kafka_timestamp",
    columns=("id", "w"),
    computed={"w": "upper(v)"},
    headers_of=HEADERS,
    deleted=DELETED,
    keeps_partition=True,
)
WORDS = ["x", "y", "left out", "closed", "bad", ""]
"""What records say; one that says nothing is a tombstone."""
Found = tuple[bytes | None, bytes | None, int | None, tuple[Any, ...]]


@dataclass(slots=True)
class FilteredWorld(RowsWorld):
    """A topic, and what becomes of its records."""

    rules: MessageRules = RULES

    def fill(self, partition: int, *words: str) -> None:
        """Send a record for each word: `bad` is no object, an empty one has no value."""
        begun = len(self.cluster.partition(FROM, partition).entries)
        for number, word in enumerate(words, begun):
            value: bytes | None = json.dumps({"id": number, "v": word, "z": [1]}).encode()
            value = {"bad": b"{bad", "": None}.get(word, value)
            headers = (("h", b"%d" % number), ("h", None))
            message = Message(value, b"k%d" % (number % 3), 1000 + number, headers)
            self.cluster.send(FROM, message, partition=partition)

    def source(self) -> TopicSource:
        """Return the topic."""
        log = MemoryLog(self.cluster, {"topics": [FROM]})
        return TopicSource(log, FROM, RECORDS.columns)

    @property
    def reader(self) -> TopicRowReader:
        """Return what reads it."""
        return TopicRowReader(MemoryReader(self.cluster, self.clock, batch_records=3), RECORDS)

    def _work(self, text: str) -> str:
        job = job_from_json(text)
        assert isinstance(job.work, Encoding)
        return result_to_json(RowWorker(job, job.work, self.reader, self.tools(job)).work())

    def read_back(self, partition: int) -> list[Found]:
        """Return what a reader finds in a partition of the target."""
        found = [each.message for each in self.cluster.partition(INTO, partition).entries]
        readable = [each.readable for each in self.cluster.partition(INTO, partition).entries]
        return [
            (each.key, each.value, each.timestamp_ms, each.headers)
            for each, is_there in zip(found, readable, strict=True)
            if is_there and each is not None
        ]

    def positions(self) -> dict[int, int]:
        """Return how far each partition is published, as the offsets topic says."""
        return {
            json.loads(key)[1]["partition"]: json.loads(value)["offset"]
            for key, value in self.offsets().items()
            if b'"topic_id"' in key
        }

    def require_exact(self) -> None:
        """Require what the records up to the positions make, once and in order."""
        reached, bad = self.positions(), list[int]()
        for partition in range(PARTITIONS):
            expected = list[Found]()
            for each in self.cluster.partition(FROM, partition).entries:
                if each.message is None or not each.readable:
                    continue
                if each.offset >= reached.get(partition, 0):
                    continue
                made = _made(each.message)
                if made == "bad":
                    bad.append(each.offset)
                elif made is not None:
                    expected.append(made)
            assert expected == self.read_back(partition)
        assert sorted(bad) == sorted(each["offset"] for each in self.rejected())


def _made(message: Message) -> Found | str | None:
    """Return what a record becomes: a message, a reject, or nothing."""
    if message.value == b"{bad":
        return "bad"
    value = None
    if message.value is not None:
        said = json.loads(message.value)
        if said["v"] == "left out":
            return None
        if said["v"] != "closed":
            kept = {"id": said["id"], "w": said["v"].upper()}
            value = json.dumps(kept, separators=(",", ":")).encode()
    return message.key, value, message.timestamp_ms, message.headers
