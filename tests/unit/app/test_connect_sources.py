"""Configurations of Connect's source connectors become publications, each option accounted for.

The documents are those that come with the connectors: Kafka's `connect-file-source.properties`,
Confluent's `quickstart-sqlite.properties`, the examples of `kafka-connect-spooldir`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.app.init.draft import translated
from penstock.cli.init import init
from penstock.core.errors import InvalidError
from penstock.spec.load import read_publications
from penstock.spec.problems import SpecError

FILE = """
name=local-file-source
connector.class=FileStreamSource
tasks.max=1
file=test.txt
topic=connect-test
"""
SQLITE = """
name=test-source-sqlite-jdbc-autoincrement
connector.class=io.confluent.connect.jdbc.JdbcSourceConnector
tasks.max=1
connection.url=jdbc:sqlite:test.db
mode=incrementing
incrementing.column.name=id
topic.prefix=test-sqlite-jdbc-
"""
POSTGRESQL = {
    "name": "Shop.Orders",
    "config": {
        "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
        "connection.url": "jdbc:postgresql://db:5432/shop?user=shop&password=geheim",
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "updated_at",
        "incrementing.column.name": "id",
        "table.whitelist": "public.orders, customers",
        "topic.prefix": "shop.",
        "poll.interval.ms": "1000",
        "timestamp.delay.interval.ms": "5000",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://registry:8081",
        "exactly.once.support": "required",
        "topic.creation.default.partitions": "6",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.cleanup.policy": "compact",
        "producer.override.compression.type": "zstd",
        "producer.override.linger.ms": "50",
    },
}
CSV = r"""
name=CsvSpoolDir
connector.class=com.github.jcustenborder.kafka.connect.spooldir.SpoolDirCsvSourceConnector
input.path=/tmp/source
input.file.pattern=^.*\\.csv$
error.path=/tmp/error
finished.path=/tmp/finished
halt.on.error=true
topic=spooldir-testing-topic
csv.first.row.as.header=true
csv.separator.char=59
value.schema={"type":"STRUCT","fieldSchemas":{"id":{"type":"INT64"},"name":{"type":"STRING"}}}
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
"""
MIRROR = """
name=copy
connector.class=org.apache.kafka.connect.mirror.MirrorSourceConnector
source.cluster.alias=primary
target.cluster.alias=backup
source.cluster.bootstrap.servers=kafka:9092
target.cluster.bootstrap.servers=kafka:9092
topics=orders,payments
sync.topic.configs.enabled=false
"""
STRINGS = "value.converter=org.apache.kafka.connect.storage.StringConverter\n"


def publish_of(text: str) -> list[dict[str, Any]]:
    """Translate, take out what a person decides, and require that the rest is a spec."""
    spec = yaml.safe_load(translated(text)[0])
    spec.pop("undecided", None)
    read_publications(yaml.safe_dump(spec), base=Path.cwd(), name="spec")
    found: list[dict[str, Any]] = spec["publish"]
    return found


def test_a_followed_file_is_lines_that_grow():
    assert publish_of(FILE + STRINGS) == [
        {
            "from": {"files": "test.txt", "format": "lines", "grows": True},
            "into": "connect-test",
            "value": {"format": "bytes", "column": "line"},
            "name": "local-file-source",
        }
    ]


def test_tables_of_a_database_are_queries_by_their_cursor():
    (rule,) = publish_of(SQLITE + "table.whitelist=accounts\n")
    assert rule["from"] == {
        "query": "SELECT * FROM accounts",
        "database": "sqlite:///test.db",
        "cursor": ["id"],
    }
    assert rule["into"] == "test-sqlite-jdbc-accounts"


def test_a_document_with_everything_becomes_a_rule_for_each_table():
    written, found = translated(json.dumps(POSTGRESQL))
    orders, customers = publish_of(json.dumps(POSTGRESQL))

    assert "geheim" not in written
    assert (orders["name"], customers["name"]) == ("shop-orders-1", "shop-orders-2")
    assert orders["from"] == {
        "query": "SELECT * FROM public.orders",
        "database": "postgresql://shop@db:5432/shop",
        "cursor": ["updated_at", "id"],
        "password": "${env:DATABASE_PASSWORD}",
        "settle": "5000ms",
    }
    assert orders["value"] == {"format": "avro", "registry": "http://registry:8081"}
    assert orders["topic"] == {
        "create": True,
        "partitions": 6,
        "config": {"cleanup.policy": "compact"},
    }
    assert (orders["into"], orders["compression"]) == ("shop.orders", "zstd")
    assert orders["transaction"] == {"interval": "1000ms"}
    assert found.spec["publishing"] == {"exactly_once": "required"}
    assert [each.option for each in found.questions()] == ["the offsets topic of Connect"]


def test_a_folder_has_its_pattern_columns_and_delimiter():
    (rule,) = publish_of(CSV)
    assert rule["from"] == {
        "files": "/tmp/source/*.csv",
        "format": "csv",
        "order": "name",
        "columns": {"id": "long", "name": "string"},
        "delimiter": ";",
    }


def test_a_mirror_within_a_cluster_is_a_rule_for_each_topic():
    assert [(each["from"], each["into"]) for each in publish_of(MIRROR)] == [
        ({"topic": "orders"}, "primary.orders"),
        ({"topic": "payments"}, "primary.payments"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MIRROR.replace("source.cluster.bootstrap.servers=kafka", "x=y"), "names no clusters"),
        (MIRROR.replace("orders,payments", "shop.*"), "by a pattern"),
        (SQLITE, "it reads all tables"),
        (SQLITE.replace("mode=incrementing", "mode=bulk"), "its mode is bulk"),
        (SQLITE.replace("jdbc:sqlite:", "jdbc:oracle:thin:@"), "another database"),
        (FILE.replace("file=", "x="), "follows no file"),
        (CSV.replace("SpoolDirCsv", "SpoolDirAvro"), "are known"),
        ("connector.class=io.x.Postgres\n", "the connector io.x.Postgres is not known"),
        ("clusters=A,B\nA->B.enabled=true\n", "own file"),
    ],
)
def test_what_cannot_be_published_is_refused(text, words):
    with pytest.raises(InvalidError, match=words) as raised:
        translated(text)
    assert raised.value.code == "P165"


def test_a_mirror_between_clusters_reads_from_the_other_one():
    two = MIRROR.replace(
        "source.cluster.bootstrap.servers=kafka", "source.cluster.bootstrap.servers=eu"
    )
    kept = (
        two + "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    )
    source = {"topic": "orders", "kafka": {"brokers": "eu:9092"}}

    assert {"name": "copy-1", "from": source, "into": "primary.orders"} == publish_of(two)[0]
    assert {"name": "copy-1", "from": source, "into": "orders"} == publish_of(kept)[0]


@pytest.mark.parametrize("text", [FILE, SQLITE + "table.whitelist=t\n", CSV, MIRROR])
def test_every_option_is_accounted_for_and_an_unknown_one_is_undecided(text):
    written, found = translated(text + "some.option=1\nkey.converter=x\ntransforms=a\n")
    names = {line.partition("=")[0] for line in text.splitlines() if line}
    known = {option for option, _ in [*found.mapped, *found.unmapped]}
    undecided = {each.option for each in found.questions()}

    assert names <= known | undecided
    assert {"some.option", "transforms"} <= undecided
    assert not known & undecided
    with pytest.raises(SpecError) as refused:
        read_publications(written, base=Path.cwd(), name="spec")
    assert {"P175"} == {each.code for each in refused.value.problems}


def test_offsets_are_not_taken_over_and_init_says_how(tmp_path, capsys):
    config = tmp_path / "file.properties"
    config.write_text(FILE + STRINGS)
    with pytest.raises(InvalidError) as raised:
        init(tmp_path / "a.yaml", from_config=config, offsets=True)
    assert raised.value.code == "P296"

    assert init(tmp_path / "b.yaml", from_config=config) == 2
    assert "P175" in capsys.readouterr().err
