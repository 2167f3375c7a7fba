"""`penstock init` reads a real cluster, and the spec that it writes lands what is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

import duckdb
import pytest
from confluent_kafka import KafkaException
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import within
from tests.messy import TOPICS
from tests.story.oracle import Row

import penstock
from penstock.app.init import draft, topics
from penstock.app.inspect.audit import audit
from penstock.app.inspect.peek import Spot, peek
from penstock.rows.schema.hints import Format
from penstock.spec.load import load
from penstock.testing.sent import Sent


@pytest.mark.parametrize("to", ["iceberg", "delta"])
def test_a_spec_is_written_for_the_topics_there_are(shop: Shop, to: str) -> None:
    shop.send(0, 30)
    binary = f"{shop.name}-binary.2"
    shop.cluster.create(binary)
    shop.cluster.send(binary, 0, [Sent(b"\x00\x01")])
    path = shop.directory / "new.yaml"
    empty = f"{shop.name}-empty"
    shop.cluster.create(empty)
    cluster = f"kafka://{shop.cluster.bootstrap}"
    chosen = ("--topics", f"{shop.topic},{binary},{empty}")
    words = ("init", path, "--from", cluster, "--to", to, *chosen, "--json")

    done = within(*words)
    assert (0, True) == (done.code, done.json["valid"]), done
    excluded = {each["topic"]: each["excluded"] for each in done.json["topics"]}
    assert {shop.topic: "", binary: "", empty: "no record to sample"} == excluded
    text = path.read_text()
    assert f'# - from: "{empty}"' in text
    pipeline = load(path)
    assert {shop.topic, binary} == {table.from_ for table in pipeline.tables}
    (found,) = peek(pipeline, shop.topic, count=1, at=Spot(shop.topic, 0, 7))
    assert [{"id": 7}, "landed"] == [found.decoded, found.outcomes[0].outcome]

    again = within(*words)
    assert (2, "P164") == (again.code, again.json["error"]["code"])
    assert text == path.read_text()


def test_topics_beyond_the_limit_are_counted_and_progress_is_reported(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        shop.cluster.create(f"a-{shop.name}-{number}")
    monkeypatch.setattr(topics, "TOPICS_MAX", 10)
    seen: list[tuple[int, int]] = []
    text, looked = draft.draft(
        f"kafka://{shop.cluster.bootstrap}",
        "delta",
        "shop",
        progress=lambda *at: seen.append(at),
    )

    assert [(n + 1, 10) for n in range(10)] == seen
    assert ["no record to sample"] * 10 == [each.excluded for each in looked.topics]
    assert 3 <= looked.left
    assert f"# {looked.left} more topics were not read" in text
    spec = shop.directory / "limited.yaml"
    spec.write_text(text)
    assert load(spec).tables


@pytest.mark.parametrize("words", [(), ("--from", "localhost:9092")])
def test_init_without_a_source_says_how(tmp_path, words: tuple[str, ...]) -> None:
    done = within("init", tmp_path / "new.yaml", *words, "--json")

    assert (2, "P166") == (done.code, done.json["error"]["code"])
    assert "kafka://" in done.json["error"]["hint"]


@pytest.mark.parametrize("to", ["iceberg", "delta"])
def test_what_is_drafted_for_messy_topics_is_what_plan_says_and_what_run_lands(
    shop: Shop, to: Format
) -> None:
    """A topic of each kind: init, validate, plan, run, audit; read back by others."""
    names = {topic: f"{shop.name}.{to}.{topic}" for topic in TOPICS}
    for topic, name in names.items():
        shop.cluster.create(name, 2)
        values = TOPICS[topic]
        for partition in (0, 1):
            shop.cluster.send(name, partition, [Sent(each) for each in values[partition::2]])
    path = shop.directory / "penstock.yaml"
    cluster = f"kafka://{shop.cluster.bootstrap}"
    words = ("--from", cluster, "--to", to, "--topics", ",".join(names.values()))
    done = within("init", path, *words, "--json")
    assert (0, True) == (done.code, done.json["valid"]), done
    reported = {each["topic"]: each["rejected"] for each in done.json["topics"]}
    assert {
        name: {"P302": 1} if topic == "mostly" else {} for topic, name in names.items()
    } == reported
    excluded = [each["topic"] for each in done.json["topics"] if each["excluded"]]
    assert [names.pop("nulls")] == excluded
    schema = json.loads((shop.directory / "penstock.schema.json").read_text())
    assert "Penstock pipeline" == schema["title"]
    text = path.read_text()
    path.write_text(text.replace("# spark: { master: inline }", "spark: { master: inline }"))

    assert 0 == within("validate", path).code
    planned = within("plan", path, "--json")
    assert 0 == planned.code, planned
    sampled = {each["table"]: each["sampled"] for each in planned.json["tables"]}
    catalog = {"iceberg": "lake", "delta": "delta"}[to]
    tables = {
        topic: f"{catalog}.landed.{name.replace('.', '_').replace('-', '_')}"
        for topic, name in names.items()
    }
    assert {tables[topic]: reported[name] for topic, name in names.items()} == {
        table: each["quarantined"] for table, each in sampled.items()
    }

    ended = penstock.open(path).run()
    assert {} == dict(ended.parked)
    found = audit(load(path), rows=True)
    assert (0, ()) == (found.exit_code, tuple(b for each in found.tables for b in each.breaks))
    rows = {topic: _read(shop, to, table) for topic, table in tables.items()}
    gone = {"debezium": 1, "compacted": 2, "mostly": 1}
    assert {topic: len(TOPICS[topic]) - gone.get(topic, 0) for topic in names} == {
        topic: len(each) for topic, each in rows.items()
    }
    _see_orders(rows["orders"], to)
    _see_others(rows)
    for topic, table in tables.items():
        assert len(rows[topic]) == _counted_by_duckdb(shop, to, table), topic


def _read(shop: Shop, to: Format, table: str) -> list[Row]:
    name = table.partition(".")[2]
    return shop.lake(name) if to == "iceberg" else shop.delta(name.replace(".", "/"))


def _counted_by_duckdb(shop: Shop, to: Format, table: str) -> int:
    """Count the coordinates in a table's live files by DuckDB's own reader of Parquet."""
    name = table.partition(".")[2]
    if to == "iceberg":
        lake = load_catalog("lake", type="sql", uri=f"sqlite:///{shop.directory}/lake/catalog.db")
        files = [task.file.file_path for task in lake.load_table(name).scan().plan_files()]
    else:
        files = DeltaTable(shop.directory / "delta" / name.replace(".", "/")).file_uris()
    query = (
        "select count(distinct (_kafka_partition, _kafka_offset)), count(*) from read_parquet(?)"
    )
    found = (
        duckdb.connect()
        .execute(query, [[each.removeprefix("file://") for each in files]])
        .fetchone()
    )
    assert found is not None
    assert found[0] == found[1], "no record twice"
    return int(found[1])


def _see_orders(rows: list[Row], to: Format) -> None:
    """Compare every row with the record it came from, read by Python alone."""
    sent = [json.loads(value) for value in TOPICS["orders"] if value is not None]
    by_id = {row["id"]: row for row in rows}
    for order in sent:
        row = by_id[order["id"]]
        uid = UUID(order["uid"])
        assert (uid if to == "iceberg" else str(uid)) == row["uid"]
        assert Decimal(order["total"]) == row["total"]
        assert Decimal(f"1.{order['id']:019d}7") == row["exact"]
        assert float(order["rate"]) == row["rate"]
        assert datetime.fromisoformat(order["placed_at"]) == row["placed_at"]
        assert datetime.fromisoformat(order["local"]) == row["local"]
        assert date.fromisoformat(order["day"]) == row["day"]
        same = ("created_ms", "seen_ts", "paid", "zip", "late")
        assert {name: order[name] for name in same} == {name: row[name] for name in same}
        customer = order["customer"]
        wanted = {
            "since": date.fromisoformat(customer["since"]),
            "name": customer["name"],
            "balance": Decimal(customer["balance"]),
        }
        assert wanted == row["customer"]
        items = [
            {"sku": item["sku"], "price": Decimal(item["price"]), "n": item.get("n")}
            for item in order["items"]
        ]
        assert items == row["items"]


def _see_others(rows: Mapping[str, list[Row]]) -> None:
    """Look at what is special about the other topics."""
    prices = {row["id"]: dict(row["prices"]) for row in rows["keyed"]}
    assert {n: {f"key{n}": 1.5, f"key{n + 1}": float(n)} for n in range(40)} == prices
    operations = sorted(row["_change_operation"] for row in rows["debezium"])
    assert ["delete", "insert", "read", "update"] == operations
    for topic in ("debezium", "flattened", "dms", "maxwell", "canal"):
        assert {Decimal("12.50")} == {row["price"] for row in rows[topic]}, topic
    assert {b"\x00\x01", b"\xff\xfe", b"\x80"} == {row["value"] for row in rows["bytes"]}
    assert {"a line", "größer", "", "17"} == {row["value"] for row in rows["text"]}
    assert {date(2026, 11, 1)} == {row["at"] for row in rows["gzip"]}
    kept = [json.loads(row["_rescued"]) for row in rows["mixed"]]
    assert {f"{n}" for n in range(60)} == {str(each["a\\.b"]) for each in kept}
    assert set(range(60)) == {row["id"] for row in rows["mixed"]}


def test_topics_of_kafka_and_its_tools_are_left_out_and_topics_are_chosen(shop: Shop) -> None:
    shop.send(0, 3)
    for own in ("connect-offsets", f"_{shop.name}"):
        with suppress(KafkaException):
            shop.cluster.create(own)
    cluster = f"kafka://{shop.cluster.bootstrap}"

    def topics(*words: str) -> list[str]:
        spec = shop.directory / f"{'-'.join(words).replace('/', '_')}.yaml"
        done = within("init", spec, "--from", cluster, *words, "--json")
        assert 0 == done.code, done
        return [each["topic"] for each in done.json["topics"]]

    assert not {"connect-offsets", f"_{shop.name}"} & {*topics()}
    assert [shop.topic] == topics("--topics", shop.topic)
    assert [shop.topic] == topics("--topics", f"/^{shop.name}.orders$/")
    words = ("--from", cluster, "--topics", f"{shop.topic}s")
    refused = within("init", shop.directory / "no.yaml", *words, "--json")
    assert (2, "P168") == (refused.code, refused.json["error"]["code"])
    assert f"--topics {shop.topic}" == refused.json["error"]["hint"]
    assert not (shop.directory / "no.yaml").exists()


def test_avro_needs_the_registry_and_lands_with_it(shop: Shop) -> None:
    fields = [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]
    record = {"type": "record", "name": "r", "fields": fields}
    (shop.directory / "7.avsc").write_text(json.dumps(record))
    shop.cluster.send(shop.topic, 0, [Sent(b"\0\0\0\0\7\2"), Sent(b"\0\0\0\0\7\4")])
    words = ("--from", f"kafka://{shop.cluster.bootstrap}", "--topics", shop.topic, "--json")

    without = within("init", shop.directory / "without.yaml", *words)
    assert (2, "P169") == (without.code, without.json["error"]["code"])
    assert "--registry" in without.json["error"]["message"]
    path = shop.directory / "with.yaml"
    done = within("init", path, *words, "--registry", f"mock://{shop.directory}")
    assert (0, {}) == (done.code, done.json["topics"][0]["rejected"]), done
    planned = within("plan", path, "--json")
    assert [2] == [each["sampled"]["landed"] for each in planned.json["tables"]]


def test_a_schema_that_is_there_stays_as_it_is(shop: Shop) -> None:
    shop.send(0, 1)
    schema = shop.directory / "penstock.schema.json"
    schema.write_text("mine")
    cluster = f"kafka://{shop.cluster.bootstrap}"
    done = within("init", shop.directory / "new.yaml", "--from", cluster, "--topics", shop.topic)

    assert (0, "mine") == (done.code, schema.read_text())
