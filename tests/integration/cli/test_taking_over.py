"""A pipeline that goes on where another system ended: from a consumer group, or from a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import yaml
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import CommitProperties, Transaction, write_deltalake
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import within
from tests.processes.broker import wait_until

import penstock
from penstock.spec.load import load


def sink(shop: Shop, name: str) -> Path:
    path = shop.directory / "sink.properties"
    path.write_text(
        f"name={name}\ntopics={shop.topic}\niceberg.tables=shop.orders\n"
        f"bootstrap.servers={shop.cluster.bootstrap}\n"
        "iceberg.tables.auto-create-enabled=true\niceberg.catalog.type=jdbc\n"
        "iceberg.catalog.uri=sqlite:///./lake/catalog.db\niceberg.catalog.warehouse=./lake\n"
        "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
        "value.converter.schemas.enable=false\n"
    )
    return path


def test_a_connect_sink_s_group_reports_where_to_begin(shop: Shop) -> None:
    shop.send(0, 50)
    shop.send(50, 10, partition=1)
    group = f"connect-{shop.name}"
    positions = [TopicPartition(shop.topic, 0, 42), TopicPartition(shop.topic, 1, 10)]
    admin = AdminClient({"bootstrap.servers": shop.cluster.bootstrap})

    def noted() -> bool:
        asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, positions)])
        return all(each.error is None for each in asked[group].result().topic_partitions)

    wait_until(noted, "the group's coordinator is there")
    words = ("--from-config", sink(shop, shop.name), "--offsets", "--json")
    done = within("init", shop.directory / "new.yaml", *words)

    assert (0, True) == (done.code, done.json.get("valid")), done
    assert {"option": "records after that", "setting": "8 in Kafka"} in done.json["mapped"]
    pipeline = load(shop.directory / "new.yaml")
    assert {shop.topic: {0: 42, 1: 10}} == pipeline.kafka.start
    spec = yaml.safe_load((shop.directory / "new.yaml").read_text())
    spec["spark"] = {"master": "inline"}
    (shop.directory / "new.yaml").write_text(yaml.safe_dump(spec))
    assert {} == dict(penstock.open(shop.directory / "new.yaml").run().parked)
    assert list(range(42, 50)) == sorted(row["id"] for row in shop.lake())


def test_a_group_that_is_at_work_or_unknown_reports_nothing(shop: Shop) -> None:
    shop.send(0, 5)
    unknown = within(
        "init", shop.directory / "a.yaml", "--from-config", sink(shop, "no"), "--offsets", "--json"
    )
    working = Consumer({"bootstrap.servers": shop.cluster.bootstrap, "group.id": "connect-busy"})
    working.subscribe([shop.topic])
    try:
        wait_until(lambda: working.poll(0.1) or working.assignment(), "it has joined")
        busy = within(
            *("init", shop.directory / "b.yaml", "--from-config", sink(shop, "busy")),
            *("--offsets", "--json"),
        )
    finally:
        working.close()

    for reported, says in ((unknown, "has no committed offsets"), (busy, "still runs")):
        assert (2, "P167") == (reported.code, reported.json["error"]["code"])
        assert says in reported.json["error"]["message"]
    assert not (shop.directory / "b.yaml").exists()


def test_a_table_of_kafka_delta_ingest_reports_where_to_begin(shop: Shop) -> None:
    """It has landed 0 to 41 of one partition, and nothing of the other."""
    shop.send(0, 50)
    shop.send(50, 10, partition=1)
    noted = CommitProperties(app_transactions=[Transaction("web-0", 41)])
    rows = pa.table({"id": pa.array(range(42), pa.int64())})
    write_deltalake(str(shop.directory / "lake/shop/orders"), rows, commit_properties=noted)
    script = shop.directory / "ingest.sh"
    script.write_text(
        f"kafka-delta-ingest ingest {shop.topic} ./lake/shop/orders --app_id web"
        f" --kafka {shop.cluster.bootstrap} --allowed_latency 1\n"
    )
    new = shop.directory / "new.yaml"
    done = within("init", new, "--from-config", script, "--offsets", "--json")

    assert (0, True) == (done.code, done.json.get("valid")), done
    spec = yaml.safe_load(new.read_text())
    assert {shop.topic: {0: 42}} == spec["kafka"]["start"]
    spec["spark"] = {"master": "inline"}
    spec["tables"][0]["source_columns"] = []  # theirs has none
    new.write_text(yaml.safe_dump(spec))
    assert {} == dict(penstock.open(new).run().parked)
    shop.spec["catalogs"]["delta"]["root"] = "./lake"
    assert list(range(60)) == shop.ids_of_delta()


def test_offsets_are_those_of_another_system(tmp_path: Path) -> None:
    words = ("--from", "kafka://localhost:1", "--offsets", "--json")
    done = within("init", tmp_path / "new.yaml", *words)

    assert (2, "P166") == (done.code, done.json["error"]["code"])
