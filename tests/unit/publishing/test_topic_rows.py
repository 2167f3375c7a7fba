"""Records of a topic become rows: untidy ones, tombstones, and those that are no rows."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from tests.story.clock import ManualClock

from penstock.app.assembly import publishing, topic_rows
from penstock.connectors.memory.cluster import MemoryCluster, Message
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.core.offsets import TopicPartition
from penstock.core.positions import Position
from penstock.core.schema import Field, Kind, List, Struct
from penstock.ports.sources import MESSAGES, NO_LIMIT, BadRow
from penstock.publishing.settings import Publication
from penstock.publishing.topic_rows import (
    COORDINATES,
    RecordRules,
    TopicRowReader,
    record_rules_from_data,
    record_rules_to_data,
    rows_of,
)
from penstock.publishing.topic_source import TopicSource
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.encode.encoder import encode, require_fit
from penstock.spec.load import read_publications

AT = TopicPartition("id", 3, "raw")
FIELDS = Struct((Field("id", Kind.LONG), Field("tags", List(Kind.STRING))))
MESSY: list[bytes | None] = [
    b'{"id": 1, "tags": ["a"], "more": {"x": 1}}',
    b"",
    None,
    b'{"id": "no number"}',
    b"\xff\xfe",
    b'{"id": 2',
    b"[]",
    b'{"tags": null}',
    b'{"id": 9223372036854775808}',
    b"null",
]


def batch(values: list[bytes | None], **more: pa.Array) -> pa.RecordBatch:
    """Return records at every second offset, as compaction leaves them."""
    columns = {
        "offset": pa.array(range(10, 10 + 2 * len(values), 2), pa.int64()),
        "timestamp": pa.array([2**62] * len(values), MESSAGES.field("timestamp").type),
        "key": pa.array([b"k%d" % number for number in range(len(values))]),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array([None] * len(values), MESSAGES.field("headers").type),
    }
    return pa.record_batch({**columns, **more})


def opened(
    records: pa.RecordBatch, given: RecordRules
) -> tuple[pa.RecordBatch, Sequence[BadRow], Mapping[str, int]]:
    found = rows_of(records, Position(""), AT, given, ReaderCache())
    assert found.count == len(found.offsets) + sum(found.left_out.values())
    return found.rows, found.bad, found.left_out


def rules(**options: str) -> RecordRules:
    return RecordRules(FIELDS, (*COORDINATES,), {"tombstones": "quarantine", **options})


def test_each_untidy_record_is_a_row_or_bad_with_its_offset_code_and_key():
    rows, bad, left_out = opened(batch(MESSY), rules())

    assert [10, 14, 24] == rows.column("_kafka_offset").to_pylist()
    assert [1, None, None] == rows.column("id").to_pylist()
    assert [False, True, False] == rows.column("_kafka_deleted").to_pylist()
    assert [b"k0", b"k2", b"k7"] == rows.column("_kafka_key").to_pylist()
    assert [MESSY[0], None, MESSY[7]] == rows.column("_kafka_value").to_pylist()
    assert {"raw"} == {*rows.column("_kafka_topic").to_pylist()}
    assert {3} == {*rows.column("_kafka_partition").to_pylist()}
    assert {} == left_out
    whole = rows_of(batch(MESSY), Position(""), AT, rules(), ReaderCache())
    assert [10, 14, 24, 12, 16, 18, 20, 22, 26, 28] == whole.offsets.tolist()
    offsets = [12, 16, 18, 20, 22, 26, 28]
    assert {"_kafka_value"} == {each.place for each in bad}
    assert [b"k%d" % ((each - 10) // 2) for each in offsets] == [each.key for each in bad]
    assert all(each.code.startswith("P3") for each in bad)


def test_tombstones_are_left_out_and_counted_or_bad_where_they_are_not_to_delete():
    given = RecordRules(FIELDS, (), {"tombstones": "skip"}, deletes=False)
    rows, bad, left_out = opened(batch([None, b'{"id": 1}', None]), given)
    assert ([1], [], {"tombstone": 2}) == (rows.column("id").to_pylist(), bad, left_out)
    assert given.columns.names == rows.schema.names

    given = RecordRules(FIELDS, (), {"tombstones": "quarantine"}, deletes=False)
    rows, bad, left_out = opened(batch([None]), given)
    assert (0, {}) == (rows.num_rows, left_out)
    assert 1 == len(bad)


def test_a_batch_of_tombstones_alone_is_rows():
    rows, bad, _ = opened(batch([None, None]), rules())
    assert ([True, True], []) == (rows.column("_kafka_deleted").to_pylist(), bad)
    assert rows.schema.equals(rules().columns)


SPEC = """
name: shop
kafka: {{ brokers: "127.0.0.1:1" }}
publishing: {{ producer: own }}
publish:
  - name: sales
    from: {{ topic: raw, {} }}
    into: sales
    {}
"""
READ = "records: { format: json }, columns: { id: long, v: string }"


def read(more: str, given: str = READ, base: Path = Path()) -> Publication:
    """Return a publication as its spec says it."""
    text = SPEC.format(given, more)
    spec = read_publications(text, base=base, name="penstock.yaml").publications
    return publishing.publication_of(spec, spec.publish[0])


def test_a_time_beyond_every_calendar_stops_nothing():
    """It is no time for a message, and no SQL can read it: a reject, where it is asked for."""
    rows, _, _ = opened(batch([b'{"id": 1}', b'{"id": 2}']), rules())
    where = "where: _kafka_timestamp > timestamptz '2000-01-01'"
    own = read(where, READ.replace("v: string", "tags: list<string>")).messages
    found = encode(rows, own, now_ms=0)
    assert [(0, "where"), (1, "where")] == [(each.row, each.column) for each in found.misfits]


def test_what_the_spec_does_not_say_is_that_of_the_record():
    found = read("where: v = 'a'").messages
    assert (("_kafka_key",), False) == (found.key, found.key_is_object)
    assert ("_kafka_timestamp", True, ("id", "v")) == (
        found.timestamp,
        found.keeps_partition,
        found.columns,
    )
    assert "_kafka_deleted" == found.deleted


@pytest.mark.parametrize(
    ("more", "given", "deleted", "keeps"),
    [
        ("key: id", READ, "", False),
        ("key: [id]", READ + ", tombstones: skip", "", False),
        ("key: _kafka_key", READ, "_kafka_deleted", False),
        ("rate: 1/s", READ + ", tombstones: quarantine", "", True),
    ],
)
def test_a_tombstone_deletes_where_it_has_a_key(more, given, deleted, keeps):
    found = read(more, given).messages
    assert (deleted, keeps) == (found.deleted, found.keeps_partition)


def test_of_coordinates_those_are_read_that_the_spec_names():
    more = "where: _KAFKA_OFFSET > 1, headers: { h: _kafka_topic }"
    found = read("\n    ".join(more.split(", ")))
    given = record_rules_from_data(found.source["records"])
    names = {"_kafka_offset", "_kafka_topic", "_kafka_timestamp", "_kafka_key"}
    assert (names, False) == ({*given.coordinates}, given.needs_headers)
    assert record_rules_from_data(record_rules_to_data(given)) == given
    kept = record_rules_from_data(read("headers: keep").source["records"])
    assert kept.needs_headers
    require_fit(topic_rows.columns_of(found.source), found.messages)


def test_other_columns_are_other_rules():
    other = READ.replace("v: string", "v: binary")
    assert read("").rules_hash != read("", other).rules_hash
    assert read("").rules_hash == read("").rules_hash


def avro(number: int) -> bytes:
    schema = {"type": "record", "name": "s", "fields": [{"name": "id", "type": "long"}]}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, {"id": number})
    return b"\0" + (7).to_bytes(4, "big") + written.getvalue()


def test_records_of_avro_are_read_by_their_schemas(tmp_path):
    text = {"type": "record", "name": "s", "fields": [{"name": "id", "type": "long"}]}
    (tmp_path / "7.avsc").write_text(json.dumps(text))
    given = f"records: {{ format: avro, registry: 'mock://{tmp_path}' }}, columns: {{ id: long }}"
    source = read("where: id > 1", given, tmp_path).source
    cluster, clock = MemoryCluster(), ManualClock()
    cluster.create("raw", 1)
    values = [avro(1), avro(2), b"\0\0\0\0\x08\x02", None]
    cluster.send("raw", *(Message(each, b"k") for each in values), partition=0)
    reader = topic_rows.topic_rows_by(MemoryReader(cluster, clock), source)
    assert isinstance(reader, TopicRowReader)
    topic = TopicSource(MemoryLog(cluster, {"topics": ["raw"]}), "raw")
    [stretch] = topic.plan(topic.starts("earliest"), topic.ends(), NO_LIMIT)
    [found] = reader.read(stretch, deadline=float("inf"))

    assert [1, 2, None] == found.rows.column("id").to_pylist()
    assert ([0, 1, 3, 2], 4) == (found.offsets.tolist(), found.count)


@pytest.mark.parametrize(("format_", "value"), [("text", "\u00e9"), ("bytes", "\u00e9".encode())])
def test_text_and_bytes_have_one_column(format_, value):
    found = read("", f"records: {{ format: {format_} }}")
    own = record_rules_from_data(found.source["records"])
    rows, _, _ = opened(batch(["\u00e9".encode()]), own)
    assert [value] == rows.column("value").to_pylist()
