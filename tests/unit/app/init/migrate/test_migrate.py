"""Other systems' configurations become specs; every option is accounted for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from penstock.app.init.draft import translated
from penstock.app.init.migrate.account import Migrated
from penstock.app.init.migrate.connect_config import options_of
from penstock.core.errors import InvalidError
from penstock.spec.load import loads

CONNECT = """
# a sink as its users write it
name=Iceberg Sink
connector.class=org.apache.iceberg.connect.IcebergSinkConnector
tasks.max=2
topics=orders, users
iceberg.tables=shop.events
iceberg.tables.auto-create-enabled=true
iceberg.table.shop.events.partition-by=days(created_at),bucket(country, 16)
iceberg.tables.default-commit-branch=staging
iceberg.table.shop.events.id-columns=id, at
iceberg.catalog.type=sql
iceberg.catalog.uri=sqlite:///./c.db
iceberg.catalog.warehouse=./lake
iceberg.control.commit.interval-ms=60000
iceberg.control.topic=control
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
consumer.override.auto.offset.reset=earliest
"""
CONNECT_JSON = """{"name": "sink", "config": {"topics.regex": "shop\\\\.(.+)",
"iceberg.catalog.type": "sql", "iceberg.catalog.uri": "sqlite:///./c.db",
"iceberg.catalog.warehouse": "./lake", "iceberg.catalog.token": "hunter2"}}"""
INGEST = """kafka-delta-ingest ingest orders ./lake/shop/orders \\
  --kafka broker:9092 -l 60 --max_messages_per_batch 5000 -b 1000000 --checkpoints \\
  --consumer_group mine --app_id Orders
"""
FLINK = """
SET 'execution.checkpointing.interval' = '10 s';
CREATE TABLE orders (id BIGINT, amount DECIMAL(10, 2)) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'b:9092',
  'properties.group.id' = 'g', 'scan.startup.mode' = 'latest-offset', 'format' = 'json');
CREATE TABLE lake_orders (id BIGINT, amount DECIMAL(10, 2)) PARTITIONED BY (`id`) WITH (
  'connector' = 'iceberg', 'catalog-name' = 'c', 'catalog-type' = 'sql',
  'uri' = 'sqlite:///./c.db', 'warehouse' = './lake', 'catalog-database' = 'shop',
  'catalog-table' = 'orders', 'write.upsert.enabled' = 'true');
INSERT INTO lake_orders SELECT * FROM orders;
"""


@pytest.fixture
def spec_of(tmp_path: Path):
    def spec_of(text: str):
        written, found = translated(text)
        return loads(decided(written), base=tmp_path), found

    return spec_of


def decided(written: str) -> str:
    """Return a spec as it is once somebody has decided to leave all as it is."""
    return yaml.safe_dump({**yaml.safe_load(written), "undecided": []})


def test_a_connect_sink_becomes_a_spec(spec_of) -> None:
    spec, found = spec_of(CONNECT)

    assert ("iceberg-sink", "local[2]", 60.0) == (
        spec.name,
        spec.spark.master,
        spec.commit.every_seconds,
    )
    assert [("orders", "lake.shop.events"), ("users", "lake.shop.events")] == [
        (rule.from_, rule.into) for rule in spec.tables
    ]
    assert ("day(created_at)", "bucket(16, country)") == tuple(spec.tables[0].partition_by)
    assert ("staging", ("id", "at")) == (spec.tables[0].branch, spec.tables[0].identifier_fields)
    assert spec.tables[0].schema_.create
    assert ("json", {"iceberg.control.topic"}) == (spec.records.format, set(dict(found.unmapped)))


@pytest.mark.parametrize(
    ("converter", "more", "expected"),
    [
        ("org.apache.kafka.connect.json.JsonConverter", "", "json-schema-envelope"),
        ("io.confluent.connect.avro.AvroConverter", "https://r:8081,https://s:8081", "avro"),
        ("io.confluent.connect.protobuf.ProtobufConverter", "https://r:8081", "protobuf"),
        ("org.apache.kafka.connect.storage.StringConverter", "", "text"),
    ],
)
def test_a_converter_of_values_becomes_a_format(
    spec_of, converter: str, more: str, expected: str
) -> None:
    plain = CONNECT.partition("value.converter=")[0]
    registry = f"value.converter.schema.registry.url={more}\n" if more else ""

    spec, found = spec_of(f"{plain}value.converter={converter}\n{registry}")

    assert expected == spec.records.format
    assert ("https://r:8081" if more else None) == (
        spec.records.registry and spec.records.registry.url
    )
    assert "value.converter" in dict(found.mapped)


def test_a_connect_sinks_json_with_a_pattern_is_understood_and_secrets_are_left_out() -> None:
    written, found = translated(CONNECT_JSON)

    assert "hunter2" not in written
    assert "${env:TOKEN}" in written
    assert [{"pattern": r"shop\.(.+)"}] == found.spec["kafka"]["topics"]
    assert "a secret is not copied" in dict(found.unmapped)["iceberg.catalog.token"]


def test_a_command_of_kafka_delta_ingest_becomes_a_spec(spec_of, tmp_path: Path) -> None:
    spec, found = spec_of(INGEST)

    assert ("orders", "broker:9092", 60.0) == (
        spec.name,
        spec.kafka.brokers,
        spec.commit.every_seconds,
    )
    assert (5000, 1_000_000) == (spec.commit.or_records, spec.commit.or_bytes)
    assert "delta.shop.orders" == spec.tables[0].into
    assert {"--checkpoints", "--consumer_group"} == set(dict(found.unmapped))


def test_a_comment_on_a_table_of_flink_is_no_column() -> None:
    commented = FLINK.replace(") WITH (", ") COMMENT 'of the shop, it''s (new)' WITH (", 1)

    plain, with_comment = (dict(translated(text)[1].unmapped) for text in (FLINK, commented))

    assert {**plain, "CREATE TABLE orders: COMMENT": "it changes no record"} == with_comment


def test_transforms_of_kafka_delta_ingest_become_columns(spec_of) -> None:
    spec, found = spec_of(
        "kafka-delta-ingest ingest web ./lake/web/requests -K auto.offset.reset=earliest"
        " security.protocol=ssl -t 'date: substr(meta.producer.at, `0`, `10`)'"
        " 'meta.kafka.offset: kafka.offset' 'place: kafka.partition' 'x.y: a' 'name: name'"
        " 'all: items[*].sku' -l 60"
    )

    (rule,) = spec.tables
    assert rule.transform is not None
    assert {
        "date": "substr(meta.producer.at, 1, 10)",
        "place": "_kafka_partition",
    } == dict(rule.transform.columns)
    assert {"meta.producer.at": "string"} == dict(rule.schema_.hints)
    assert ("earliest", 60.0) == (spec.kafka.start, spec.commit.every_seconds)
    assert {"-t x.y", "-t name", "-t all"} == asked(found)
    assert "ssl" == spec.kafka.security.protocol
    assert "_kafka_offset" in dict(found.mapped)["-t meta.kafka.offset"]


def test_flink_sql_becomes_a_spec(spec_of) -> None:
    spec, found = spec_of(FLINK)

    assert ("c.shop.orders", "latest", 10.0) == (
        spec.tables[0].into,
        spec.kafka.start,
        spec.commit.every_seconds,
    )
    assert ("id",) == tuple(spec.tables[0].partition_by)
    assert {"scan.startup.mode", "write.upsert.enabled"} == asked(found)
    assert not asked(found) & {*dict(found.unmapped)}
    assert "not needed" in dict(found.unmapped)["properties.group.id"]


def asked(found: Migrated) -> set[str]:
    return {each.option for each in found.questions()}


ROUTED = """{"name": "events-sink", "config": {
"connector.class": "org.apache.iceberg.connect.IcebergSinkConnector", "tasks.max": "2",
"topics": "events", "iceberg.tables": "default.events_list,default.events_create",
"iceberg.tables.route-field": "payload.type",
"iceberg.table.default.events_list.route-regex": "list",
"iceberg.table.default.events_create.route-regex": "create.*",
"iceberg.tables.auto-create-props.write.parquet.compression-codec": "zstd",
"iceberg.catalog.catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
"iceberg.catalog.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
"iceberg.catalog.warehouse": "s3a://bucket/warehouse",
"consumer.override.security.protocol": "SASL_SSL",
"consumer.override.sasl.mechanism": "SCRAM-SHA-512",
"consumer.override.sasl.jaas.config": "ScramLoginModule required username=me password=hunter2;",
"transforms": "debezium",
"transforms.debezium.type": "org.apache.iceberg.connect.transforms.DebeziumTransform"}}"""


def test_a_sink_that_routes_by_a_field_becomes_rules_with_conditions() -> None:
    written, found = translated(ROUTED)

    assert [
        ("default.events_list", "regexp_full_match(payload.payload.type, 'list')", True),
        ("default.events_create", "regexp_full_match(payload.payload.type, 'create.*')", None),
    ] == [
        (rule["into"].removeprefix("lake."), rule["where"], rule.get("continue"))
        for rule in found.spec["tables"]
    ]
    assert {"payload.type": "string"} == found.spec["tables"][0]["schema"]["hints"]
    assert {"type": "glue", "warehouse": "s3://bucket/warehouse"} == found.spec["catalogs"]["lake"]
    assert {
        "protocol": "sasl_ssl",
        "mechanism": "scram-sha-512",
        "username": "me",
        "password": "${env:KAFKA_SASL_PASSWORD}",
    } == found.spec["kafka"]["security"]
    assert {"envelope": "debezium"} == found.spec["records"]
    assert "hunter2" not in written
    reported = {option for option, _ in [*found.mapped, *found.unmapped]} | asked(found)
    assert set() == json.loads(ROUTED)["config"].keys() - reported


BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
OF_MSK = "software.amazon.msk.auth.iam.IAM"


@pytest.mark.parametrize(
    ("options", "security"),
    [
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://x/token",
                "sasl.login.callback.handler.class": f"{BEARER}CallbackHandler",
                "sasl.jaas.config": f"{BEARER}Module required clientId='me' scope=\"s\""
                " clientSecret='hunter2' extension_pool='one' ;",
            },
            {
                "mechanism": "oauthbearer",
                "token_endpoint": "https://x/token",
                "client_id": "me",
                "scope": "s",
                "client_secret": "${env:KAFKA_CLIENT_SECRET}",
                "extensions": {"pool": "one"},
            },
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://x/token",
                "sasl.oauthbearer.client.credentials.client.id": "me",
                "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
                "sasl.oauthbearer.scope": "s",
                "sasl.oauthbearer.extensions": "pool=one, cluster=lkc-1",
            },
            {
                "mechanism": "oauthbearer",
                "token_endpoint": "https://x/token",
                "client_id": "me",
                "client_secret": "${env:KAFKA_CLIENT_SECRET}",
                "scope": "s",
                "extensions": {"pool": "one", "cluster": "lkc-1"},
            },
        ),
        (
            {
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.jaas.config": f"{OF_MSK}LoginModule required;",
                "sasl.client.callback.handler.class": f"{OF_MSK}ClientCallbackHandler",
            },
            {"mechanism": "aws_msk_iam"},
        ),
    ],
    ids=["of a login", "of Kafka 4.1", "of MSK"],
)
def test_where_tokens_come_from_is_taken_over(options: dict, security: dict) -> None:
    given = json.loads(ROUTED)
    of_sasl = [name for name in given["config"] if "sasl." in name]
    for name in of_sasl:
        del given["config"][name]
    given["config"] |= {f"consumer.override.{name}": value for name, value in options.items()}
    written, found = translated(json.dumps(given))

    assert {"protocol": "sasl_ssl", **security} == found.spec["kafka"]["security"]
    assert "hunter2" not in written
    reported = {option for option, _ in [*found.mapped, *found.unmapped]} | asked(found)
    assert set() == given["config"].keys() - reported
    assert not [option for option in asked(found) if "sasl" in option]


SCRIPT = """
-- a job as the documents of both write it; a semicolon; in a comment
SET 'execution.checkpointing.interval' = '1 min';
CREATE CATALOG lakehouse WITH ('type'='iceberg', 'catalog-type'='hive',
  'uri'='thrift://localhost:9083', 'clients'='5', 'warehouse'='s3a://bucket/warehouse');
CREATE TABLE default_catalog.default_database.user_behavior (
  `user_id` BIGINT, `item;id` BIGINT, `ts` TIMESTAMP(3) METADATA FROM 'timestamp',
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'user_behavior', 'format' = 'json',
  'properties.bootstrap.servers' = 'b:9092', 'scan.startup.mode' = 'earliest-offset');
USE CATALOG lakehouse;
CREATE DATABASE IF NOT EXISTS db;
USE db;
CREATE TABLE IF NOT EXISTS behavior (user_id BIGINT, dt STRING) PARTITIONED BY (`dt`)
  WITH ('format-version'='2');
CREATE TABLE clicks (user_id BIGINT);
EXECUTE STATEMENT SET BEGIN
INSERT INTO behavior /*+ OPTIONS('upsert-enabled'='true') */
  SELECT user_id, DATE_FORMAT(ts, 'yyyy-MM-dd') FROM default_catalog.default_database.user_behavior;
INSERT INTO clicks SELECT * FROM default_catalog.default_database.user_behavior
  WHERE behavior = 'click';
END;
"""


def test_a_script_of_flink_becomes_a_table_for_each_insert(spec_of) -> None:
    spec, found = spec_of(SCRIPT)

    assert [
        ("user_behavior", "lakehouse.db.behavior", True),
        ("user_behavior", "lakehouse.db.clicks", False),
    ] == [(rule.from_, rule.into, rule.continue_) for rule in spec.tables]
    assert ("hive", "s3://bucket/warehouse") == (
        found.spec["catalogs"]["lakehouse"]["type"],
        found.spec["catalogs"]["lakehouse"]["warehouse"],
    )
    assert ("dt",) == tuple(spec.tables[0].partition_by)
    left, questions = dict(found.unmapped), {each.option: each for each in found.questions()}
    assert {"clients", "CREATE DATABASE IF NOT EXISTS db"} <= left.keys()
    assert {"format-version": "2"} == dict(spec.tables[0].properties)
    source = "CREATE TABLE default_catalog.default_database.user_behavior"
    assert {
        "upsert-enabled",
        f"{source}: ts",
        f"{source}: watermark",
        "INSERT INTO lakehouse.db.behavior: SELECT",
        "INSERT INTO lakehouse.db.clicks: FROM",
    } == questions.keys()
    assert "WHERE behavior = 'click'" == questions["INSERT INTO lakehouse.db.clicks: FROM"].value
    computed = questions["INSERT INTO lakehouse.db.behavior: SELECT"].value
    assert "SELECT user_id, DATE_FORMAT(ts, 'yyyy-MM-dd')" == computed


def test_a_command_that_cargo_runs_is_one_of_kafka_delta_ingest(spec_of) -> None:
    """As its own README starts it."""
    spec, found = spec_of(
        "RUST_LOG=debug cargo run ingest web_requests ./tests/data/web_requests \\\n"
        "  --allowed_latency 60 --app_id web_requests --auto_offset_reset earliest\n"
    )

    assert ("kafka-delta-ingest", 60.0) == (found.system, spec.commit.every_seconds)


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ("specific-offsets' = 'partition:0,offset:42;partition:1,offset:300", {0: 42, 1: 300}),
        ("timestamp-millis' = '1700000000000", "2023-11-14T22:13:20Z"),
        ("mode' = 'group-offsets", "earliest"),
        ("mode' = 'latest-offset", "latest"),
    ],
)
def test_where_a_job_of_flink_begins_is_kept(spec_of, options: str, start: object) -> None:
    text = FLINK.replace("'scan.startup.mode' = 'latest-offset'", f"'scan.startup.{options}'")
    _spec, found = spec_of(text)
    start = {"orders": start} if isinstance(start, dict) else start

    assert start == found.spec["kafka"]["start"]
    assert ["scan.startup.mode"] == [each.option for each in found.beginning]
    assert "g" == found.group


@pytest.mark.parametrize("reset", ["--auto_offset_reset latest", "-K auto.offset.reset=latest"])
def test_offsets_that_were_sought_come_before_a_reset(spec_of, reset: str) -> None:
    spec, found = spec_of(f"""{INGEST} --seek_offsets '{{"0": 41}}' {reset}""")

    assert {"orders": {0: 42}} == spec.kafka.start
    assert any("auto" in option for option in dict(found.unmapped))


def test_passwords_within_a_catalogs_options_are_not_copied() -> None:
    written, found = translated(
        CONNECT_JSON.replace(
            '"iceberg.catalog.token"',
            '"iceberg.catalog.uri": "jdbc:postgresql://me:hunter2@h:5/db?password=hunter2&x=1",'
            '"iceberg.catalog.header.Authorization": "hunter2", "iceberg.catalog.token"',
        )
    )

    assert "hunter2" not in written
    lake = found.spec["catalogs"]["lake"]
    password = "${env:URI_PASSWORD}"
    assert f"postgresql://me:{password}@h:5/db?password={password}&x=1" == lake["uri"]
    assert "${env:HEADER_AUTHORIZATION}" == lake["header.Authorization"]


@pytest.mark.parametrize("field", ["payload.type", "order.type", "end"])
def test_a_field_that_routes_is_found_whatever_its_name(tmp_path: Path, field: str) -> None:
    _, found = translated(ROUTED.replace("payload.type", field))
    found.spec["kafka"] = {"brokers": "localhost:9092", "topics": ["events"]}

    spec = loads(yaml.safe_dump(found.spec), base=tmp_path)

    assert 2 == len(spec.tables)


@pytest.mark.parametrize("text", [CONNECT, CONNECT_JSON])
def test_every_option_of_a_sink_is_accounted_for(text: str) -> None:
    _, found = translated(text)

    reported = {option for option, _ in [*found.mapped, *found.unmapped]} | asked(found)
    lines = [line.partition("=")[0] for line in text.splitlines() if "=" in line]
    assert set() == {line for line in lines if not line.startswith("{")} - reported
    assert all(why for _, why in found.unmapped)


@pytest.mark.parametrize("text", ["", "a=b", "CREATE TABLE t (a INT) WITH ('connector'='x');"])
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="not supported") as raised:
        translated(text)
    assert "P165" == raised.value.code


def test_broken_json_is_to_be_corrected_and_not_another_system() -> None:
    with pytest.raises(InvalidError, match=r"it is not JSON: .* line 1 column 2") as raised:
        translated("{")
    assert ("P165", True) == (raised.value.code, raised.value.hint.startswith("correct it"))


TWO_SOURCES = """
CREATE TABLE a (x INT) WITH ('connector'='kafka','topic'='a','scan.startup.mode'='earliest-offset',
 'properties.group.id'='ga','properties.bootstrap.servers'='h:9092','format'='json');
CREATE TABLE b (x INT) WITH ('connector'='kafka','topic'='b','scan.startup.mode'='latest-offset',
 'properties.group.id'='gb','properties.bootstrap.servers'='h:9092','format'='avro-confluent');
CREATE CATALOG lake WITH ('type'='iceberg','catalog-type'='jdbc','jdbc.password'='hunter2',
 'uri'='jdbc:postgresql://h/db','jdbc.user'='me','warehouse'='s3://b/w');
INSERT INTO lake.d.a SELECT * FROM a; INSERT INTO lake.d.b SELECT * FROM b;
"""


def test_what_two_sources_say_differently_is_reported_and_the_first_is_taken() -> None:
    _, found = translated(TWO_SOURCES)

    assert "earliest" == found.spec["kafka"]["start"]
    assert "json" == found.spec["records"]["format"]
    assert "ga" == found.group
    reported = [
        each.option for each in found.questions() if each.decide.startswith("another source")
    ]
    assert {"scan.startup.mode", "properties.group.id", "format"} == set(reported)
    assert "postgresql://me:${env:JDBC_PASSWORD}@h/db" == found.spec["catalogs"]["lake"]["uri"]


SINKS = """
CREATE TABLE s (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 's',
  'properties.bootstrap.servers' = 'b:9092', 'format' = 'json');
CREATE TABLE a (id BIGINT) WITH ('connector' = 'iceberg', 'catalog-name' = 'lake',
  'catalog-type' = 'rest', 'uri' = 'http://one', 'catalog-database' = 'x');
CREATE TABLE b (id BIGINT) WITH ('connector' = 'iceberg', 'catalog-name' = 'lake',
  'catalog-type' = 'rest', 'uri' = 'http://two', 'catalog-database' = 'x');
CREATE TABLE f (id BIGINT) WITH ('connector' = 'iceberg', 'catalog-name' = 'lake',
  'catalog-type' = 'rest', 'uri' = 'http://two', 's3.region' = 'r', 'catalog-database' = 'x');
CREATE TABLE c (id BIGINT) WITH ('connector' = 'delta', 'table-path' = '/one/x/c');
CREATE TABLE d (id BIGINT) WITH ('connector' = 'delta', 'table-path' = '/two/x/d');
CREATE TABLE e (id BIGINT) WITH ('connector' = 'delta', 'table-path' = '/two/x/e');
INSERT INTO a SELECT * FROM s; INSERT INTO b SELECT * FROM s; INSERT INTO c SELECT * FROM s;
INSERT INTO d SELECT * FROM s; INSERT INTO e SELECT * FROM s; INSERT INTO f SELECT * FROM s;
"""


def test_sinks_in_several_catalogs_keep_each_its_own(spec_of) -> None:
    spec, found = spec_of(SINKS)

    places = {"lake": "http://one", "lake_2": "http://two", "delta": "/one", "delta_2": "/two"}
    kept = {
        name: each.get("uri", each.get("root")) for name, each in found.spec["catalogs"].items()
    }
    assert places == kept
    into = ["lake.x.a", "lake_2.x.b", "delta.x.c", "delta_2.x.d", "delta_2.x.e"]
    into.append("lake_2.x.f")
    assert into == [each.into for each in spec.tables]
    assert "lake" in dict(found.unmapped), "that it has another name is reported"
    assert "r" == found.spec["catalogs"]["lake_2"]["s3.region"], "one catalog, reported twice"


SECRET = "Hunter2"
USER_INFO = "value.converter.basic.auth.user.info"
SOURCE = "value.converter.basic.auth.credentials.source"
CONVERTER = "value.converter=io.confluent.connect.avro.AvroConverter\nvalue.converter."


@pytest.mark.parametrize(
    ("lines", "username"),
    [
        (f"schema.registry.url=https://me:{SECRET}@r:8081,https://s", "me"),
        (
            f"schema.registry.url=https://r:8081\n{SOURCE}=USER_INFO\n{USER_INFO}=me:{SECRET}",
            "me",
        ),
        (
            f"schema.registry.url=https://r:8081\n{USER_INFO}=${{file:/run/{SECRET}:user}}",
            "${env:REGISTRY_USERNAME}",
        ),
        (f"schema.registry.url=https://{SECRET}@r:8081", "${env:REGISTRY_USERNAME}"),
    ],
)
def test_the_user_of_a_registry_is_next_to_its_address(spec_of, lines: str, username: str) -> None:
    text = f"{CONNECT.partition('value.converter=')[0]}{CONVERTER}{lines}\n"

    spec, found = spec_of(text)

    registry = {
        "url": "https://r:8081",
        "username": username,
        "password": "${env:REGISTRY_PASSWORD}",
    }
    assert registry == found.spec["records"]["registry"]
    assert spec.records.registry is not None
    assert SECRET not in account_of(text)
    assert "export REGISTRY_PASSWORD" in account_of(text)


def test_a_registry_that_is_asked_with_a_token_is_so_here() -> None:
    lines = f"schema.registry.url=https://r:8081\nvalue.converter.bearer.auth.token={SECRET}"
    text = f"{CONNECT.partition('value.converter=')[0]}{CONVERTER}{lines}\n"

    assert {"url": "https://r:8081", "token": "${env:REGISTRY_TOKEN}"} == (
        translated(text)[1].spec["records"]["registry"]
    )
    assert SECRET not in account_of(text)


def account_of(text: str) -> str:
    """Return all that a user is shown of a translation: the spec with its comments, the account."""
    written, found = translated(text)
    return f"{written}{found.mapped}{found.unmapped}{found.questions()}"


@pytest.mark.parametrize(
    "text",
    [
        f"{CONNECT}iceberg.catalog.oauth2-server-uri=https://x?client_secret={SECRET}",
        f"{CONNECT}iceberg.catalog.s3.endpoint=jdbc:x://h;user=me;password={SECRET}",
        f"{CONNECT}iceberg.catalog.prefix=http\\://me\\:{SECRET}@h",
        f"{CONNECT}iceberg.tables.write-props.s3.secret-access-key={SECRET}",
        f"{CONNECT}iceberg.tables.write-props.place=s3://key:{SECRET}@bucket",
        f"{CONNECT}bootstrap.servers=sasl://me:{SECRET}@h:9092",
        f"{CONNECT}https://me:{SECRET}@h=1",
        f"{INGEST.rstrip()} -K 'sasl.password: {SECRET}' sasl.password={SECRET}",
        INGEST.replace("./lake", f"s3://key:{SECRET}@bucket/lake"),
        f"{FLINK} SET sql-client.password = {SECRET};",
        f"{FLINK} ALTER TABLE orders SET ('properties.sasl.password' = '{SECRET}');",
    ],
)
def test_no_secret_is_copied_or_reported(text: str) -> None:
    assert SECRET not in account_of(text)


STRIMZI = f"""
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnector
metadata:
  name: events-sink
spec:
  class: org.apache.iceberg.connect.IcebergSinkConnector
  tasksMax: 3
  config:
    topics: orders
    iceberg.tables: shop.orders
    iceberg.tables.auto-create-enabled: true
    iceberg.catalog.type: rest
    iceberg.catalog.uri: http://rest:8181
    iceberg.catalog.credential: {SECRET}
"""


@pytest.mark.parametrize("form", ["yaml", "json", "several"])
def test_a_connector_of_strimzi_is_read(spec_of, form: str) -> None:
    other = "kind: KafkaTopic\nmetadata: {name: orders}\n---"
    as_json = json.dumps(yaml.safe_load(STRIMZI))
    text = {"yaml": STRIMZI, "json": as_json, "several": f"{other}{STRIMZI}"}[form]

    spec, found = spec_of(text)

    assert ("events-sink", "local[3]") == (spec.name, spec.spark.master)
    assert ("orders", "lake.shop.orders") == (spec.tables[0].from_, spec.tables[0].into)
    assert spec.tables[0].schema_.create
    assert "${env:CREDENTIAL}" == found.spec["catalogs"]["lake"]["credential"]
    assert SECRET not in account_of(text)


def test_a_property_may_go_on_in_the_next_line_and_be_reported_by_a_colon(spec_of) -> None:
    text = CONNECT.replace("topics=orders, users", "topics : orders,\\\n   users")

    assert ("orders", "users") == spec_of(text)[0].kafka.topics


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{CONNECT}\n- {SECRET}", "line 21 is no property"),
        (f"{CONNECT}\nconfig: {{ a: b\n- c: [{SECRET}]", "line 22 is no property"),
        (STRIMZI.replace("config:", "config: 7\n  other:"), "config is no object"),
        (f"{STRIMZI}\n--- # another\n{STRIMZI}", "2 connectors"),
        (STRIMZI.replace("tasksMax:", f"[{SECRET}"), "not YAML"),
        ('{"config": ["iceberg."]}', "config is no object"),
        (f"{INGEST.rstrip()} --app_id don't {SECRET}", "does not close"),
        (f"KEY={SECRET} kafka-delta-ingest orders ./lake/x/y", "has the word ingest"),
    ],
)
def test_what_is_no_configuration_is_refused_without_being_repeated(text: str, says: str) -> None:
    with pytest.raises(InvalidError) as raised:
        translated(text)

    assert "P165" == raised.value.code
    assert says in raised.value.message
    assert SECRET not in f"{raised.value} {raised.value.hint}"


@pytest.mark.parametrize(
    ("text", "option"),
    [
        (INGEST.replace("5000", '"$BATCH"'), "--max_messages_per_batch"),
        (INGEST.replace("-l 60", '-l "$SECONDS"'), "-l"),
        (INGEST.replace("-b 1000000", "-b 1MB"), "-b"),
        (CONNECT.replace("60000", "${env:EVERY}"), "iceberg.control.commit.interval-ms"),
        (
            FLINK.replace("mode' = 'latest-offset", f"timestamp-millis' = '{'9' * 20}"),
            "scan.startup.mode",
        ),
    ],
)
def test_what_should_be_a_number_and_is_none_is_left(spec_of, text: str, option: str) -> None:
    (question,) = (each for each in spec_of(text)[1].questions() if each.option == option)
    assert "kafka.start" in question.decide or "no number" in question.decide


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n  c=d", {"a": "bc=d"}),
        ("a=b\\\\\\\n\\\\\nc=d", {"a": "b\\\\", "c": "d"}),
        ("# it goes on \\\na=b", {"a": "b"}),
        ("a=b\\\n\nc=d\\", {"a": "b", "c": "d"}),
        ("a=b\\ \r\nc = \\ d  ", {"a": "b", "c": "d"}),
        ("a=\\u00e9\\t\\ud83d\\ude00\\q\u2028!", {"a": "é\t😀q\u2028!"}),
        ("a.b=d=e:f", {"a.b": "d=e:f"}),
    ],
)
def test_lines_of_properties_end_and_are_escaped_as_in_java(
    text: str, expected: dict[str, str]
) -> None:
    assert expected == options_of(text)


@pytest.mark.parametrize("line", ["c=\\u12", "c=\\uwxyz", "c=\\u", f"https\\://{SECRET}@h=1"])
def test_an_escape_that_java_refuses_or_that_is_in_a_name_is_refused(line: str) -> None:
    with pytest.raises(InvalidError, match="line 2 is no property") as raised:
        options_of(f"a=b\n{line}")
    assert SECRET not in str(raised.value)
