"""A configuration of a source connector of Kafka Connect becomes publications.

Known are FileStreamSource, the SpoolDir family, JDBC's source, and MirrorMaker 2's MirrorSource
within a cluster or between two.

Invariants: every option is mapped, left with a reason, or undecided; a default that a connector has
without saying so, as the form of values that a worker is set to, is no exception.

Source: Kafka, "Source Connector Configs", `FileStreamSourceConnector`, `MirrorSourceConfig`;
Confluent, "JDBC Source Connector Configuration Properties"; `kafka-connect-spooldir`.
"""

from __future__ import annotations

from typing import Any

from penstock.app.init.migrate.account import (
    Migrated,
    Options,
    Question,
    Rule,
    Rules,
    asked,
    milliseconds,
    to,
    with_setting,
)
from penstock.app.init.migrate.client_options import CLIENT
from penstock.app.init.migrate.connect_files import FILE_STREAM, SPOOL_DIR, file_stream, spool_dir
from penstock.app.init.migrate.connect_jdbc import JDBC, jdbc
from penstock.app.init.migrate.connect_mirror import MIRROR, mirror
from penstock.app.init.migrate.publications import in_publications, named

BEGINNING = (
    "where the first run begins: publish[].from.start. earliest publishes all that is there, again"
    " where topics have it; latest skips it; or, before the first run:  penstock seek NAME PLACE"
)
_CREATION, _PRODUCER = "topic.creation.default.", "producer.override."
_STRINGS = "org.apache.kafka.connect.storage.StringConverter"
_JSON, _AVRO = ".JsonConverter", ".AvroConverter"
_CONVERTER = "value.converter"
_KINDS = {
    "FileStreamSource": (file_stream, FILE_STREAM),
    "SpoolDir": (spool_dir, SPOOL_DIR),
    "JdbcSource": (jdbc, JDBC),
    "MirrorSource": (mirror, MIRROR),
}


def is_source(options: Options) -> bool:
    """Return whether a configuration is one of a source connector that is known."""
    return any(kind in options.get("connector.class", "") for kind in _KINDS)


def connect_source(options: Options) -> Migrated:
    """Translate a source connector. Raises InvalidError (P165) for what cannot be published."""
    given = options["connector.class"]
    translate, rules = next(found for kind, found in _KINDS.items() if kind in given)
    found = Migrated(f"{given.rpartition('.')[2]} of Kafka Connect")
    found.spec["name"] = options.get("name", "migrated")
    rules_of_spec = translate(found, options)
    for number, rule in enumerate(rules_of_spec):
        rule["name"] = named(options.get("name", "migrated"), number, len(rules_of_spec))
    found.spec["publish"] = rules_of_spec
    if translate is not mirror:
        _values(found, options)
    found.beginning.append(Question("the offsets topic of Connect", "", BEGINNING))
    noted = {option for option, _ in [*found.mapped, *found.unmapped]}
    noted |= {each.option for each in found.questions()}
    for key, value in options.items():
        if key not in noted:
            found.follow({**rules, **_COMMON}, key, value)
    return found


def _values(found: Migrated, options: Options) -> None:
    """Write values in the form of the connector's converter; a worker's is not known here."""
    converter = options.get(_CONVERTER, "")
    lines = all("column" in each.get("value", {}) for each in found.spec["publish"])
    if lines:
        if converter == _STRINGS:
            found.mapped.append((_CONVERTER, "publish[].value: a line as it is"))
        else:
            why = "a line is published as it is, as by StringConverter: publish[].value"
            found.ask(_CONVERTER, converter or "(not set)", why)
    elif converter.endswith(_JSON) and options.get(f"{_CONVERTER}.schemas.enable") == "false":
        found.mapped.append((_CONVERTER, "publish[].value.format: json"))
        found.mapped.append((f"{_CONVERTER}.schemas.enable", "publish[].value.format: json"))
    elif converter.endswith(_AVRO):
        in_publications("value.format", lambda _: "avro")(found, _CONVERTER, converter)
    else:
        why = "values are JSON without schemas here: publish[].value.format: avro, json-schema"
        found.ask(_CONVERTER, converter or "(not set)", why)


def _created(found: Migrated, key: str, value: str) -> None:
    """Create the topics as Connect would."""
    name = key.removeprefix(_CREATION)
    for rule in found.spec["publish"]:
        topic: dict[str, Any] = rule.setdefault("topic", {"create": True})
        if name == "partitions":
            topic["partitions"] = int(value)
        else:
            topic.setdefault("config", {})[name] = value
    found.mapped.append((key, "publish[].topic"))


def _override(rules: Rules) -> Rule:
    return lambda found, key, value: found.follow(rules, key, value, key.removeprefix(_PRODUCER))


_OF_PRODUCER: Rules = {
    "compression.type": in_publications("compression", str),
    "acks enable.idempotence max.in.flight.requests.per.connection retries linger.ms batch.size"
    " buffer.memory max.block.ms delivery.timeout.ms partitioner.*": (
        "a transaction waits for all replicas, and is sent in whole batches"
    ),
    "transaction.timeout.ms": in_publications("transaction.timeout", milliseconds),
    "transactional.id": asked("it is <group>-<name>-0 here: publishing.group"),
    **CLIENT,
}
_COMMON: Rules = {
    "name": with_setting("name"),
    "connector.class": with_setting("publish[].from"),
    "bootstrap.servers": to("kafka.brokers"),
    "tasks.max tasks.max.enforce": "one task publishes each source",
    "exactly.once.support=required exactly.once.support=requested": to(
        "publishing.exactly_once", lambda text: text.strip().lower()
    ),
    "transaction.boundary=poll transaction.boundary=interval": in_publications(
        "transaction.boundary", lambda text: text.strip().lower()
    ),
    "transaction.boundary": asked("only a source of your own ends transactions by its word"),
    "transaction.boundary.interval.ms": in_publications("transaction.interval", milliseconds),
    "offsets.storage.topic": (
        "positions are in <group>-<name>-offsets: their source partitions are others than Connect's"
    ),
    f"{_CREATION}replication.factor=-1": "the brokers' default, as here",
    f"{_CREATION}replication.factor": asked("new topics have the brokers' default replicas"),
    f"{_CREATION}partitions=-1": "the brokers' default, as here",
    f"{_CREATION}*": _created,
    "topic.creation.*": asked("how topics are created: publish[].topic"),
    f"{_PRODUCER}*": _override(_OF_PRODUCER),
    "admin.override.* consumer.override.*": asked("how brokers are spoken to: kafka.security"),
    f"{_CONVERTER}.schema.registry.url": in_publications("value.registry", str),
    f"{_CONVERTER}.*": asked("how values are written: publish[].value"),
    "key.converter*": "the connector gives no keys, unless a transform makes them",
    "header.converter*": "rows have no headers",
    "transforms* predicates*": asked("what becomes of a row: publish[].where, key; or a query"),
    "errors.tolerance=none": "what is no message stops the publication, as there",
    "errors.tolerance": asked("a topic for rows that are no messages: publish[].rejects"),
    "errors.log.* errors.retry.*": "what may pass is tried again by itself, and told",
    "config.action.reload": "secrets are looked up again when they change",
    "*": asked(),
}
