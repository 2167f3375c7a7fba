"""A configuration of the Iceberg sink of Kafka Connect becomes a spec.

Invariants: every option is mapped, left with a reason, or undecided; a default that the connector
has without saying so (whose records a converter reads, where its group stands) is no exception.

Source: Iceberg, "Kafka Connect", Configuration; Kafka, "Sink Connector Configs".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.app.init.migrate.account import (
    NO_NUMBER,
    NOT_NEEDED,
    Migrated,
    Options,
    partition_field,
    unknown,
)
from penstock.app.init.migrate.catalog_options import account_of, catalog_of
from penstock.app.init.migrate.client_options import RESET, client_option
from penstock.app.init.migrate.connect_config import options_of
from penstock.app.init.migrate.connect_registry import registry
from penstock.app.init.migrate.connect_transforms import transforms
from penstock.spec.language.expressions import place, quoted
from penstock.spec.secrets import is_secret_name

_CATALOG = "iceberg.catalog."
_ROUTE = "iceberg.tables.route-field"
_DYNAMIC = "iceberg.tables.dynamic-enabled"
_CONSUMER = "consumer.override."
_RESETS = (f"{_CONSUMER}{RESET}", f"consumer.{RESET}", RESET)


def connect_sink(text: str) -> Migrated:
    """Translate what `connect_config` reads. Raises InvalidError (P165)."""
    options = options_of(text)
    if not any(key.startswith("iceberg.") for key in options):
        raise unknown("no option of it begins with iceberg., and it is no other that is known")
    found = Migrated("the Iceberg sink of Kafka Connect")
    found.group = options.get("iceberg.connect.group-id") or options.get(
        "consumer.override.group.id", f"connect-{options.get('name', '')}"
    )
    _catalog(found, options)
    create = options.get("iceberg.tables.auto-create-enabled", "false") == "true"
    _topics(found, options)
    _tables(found, options, create=create)
    _records(found, options)
    _begin(found, options)
    transforms(found, options)
    for key, value in options.items():
        if not key.startswith((_CATALOG, "transforms", "predicates")):
            _option(found, key, value)
    return found


def _begin(found: Migrated, options: Options) -> None:
    """Begin as the connector's group would for the first time; only `earliest` is as it was."""
    option = next((each for each in _RESETS if each in options), RESET)
    value = options.get(option, "")
    if value == "earliest":
        found.put(option, "kafka.start", "earliest")
    else:
        start = "latest" if value == "latest" else "earliest"
        found.begin(option, value or "(not set)", start)


def _catalog(found: Migrated, options: Options) -> None:
    named = {k.removeprefix(_CATALOG): v for k, v in options.items() if k.startswith(_CATALOG)}
    catalog = catalog_of(named)
    found.spec["catalogs"] = {"lake": catalog.settings}
    found.mapped += [(f"{_CATALOG}{key}", setting) for key, setting in account_of(catalog, "lake")]
    found.left += [(f"{_CATALOG}{key}", why) for key, why in catalog.left]
    for key, value, decide in catalog.asked:
        found.ask(f"{_CATALOG}{key}", value, decide)


def _topics(found: Migrated, options: Options) -> None:
    if "topics.regex" in options:
        pattern = options["topics.regex"]
        found.put("topics.regex", "kafka.topics", [{"pattern": pattern}])
    else:
        topics = [name.strip() for name in options.get("topics", "").split(",") if name.strip()]
        found.put("topics", "kafka.topics", topics)


def _tables(found: Migrated, options: Options, *, create: bool) -> None:
    tables = [each.strip() for each in options.get("iceberg.tables", "").split(",") if each.strip()]
    topics = found.spec["kafka"]["topics"]
    default = options.get("iceberg.tables.default-partition-by", "")
    rules = []
    for number, name in enumerate(tables):
        for topic in topics:
            source = topic["pattern"] if isinstance(topic, dict) else topic
            rule: dict[str, Any] = {"from": source, "into": f"lake.{name}"}
            if number + 1 < len(tables):
                rule["continue"] = True
            fields = options.get(f"iceberg.table.{name}.partition-by", default)
            if fields:
                rule["partition_by"] = _partition_fields(fields)
            if create:
                rule["schema"] = {"create": True}
            _route(found, options, name, rule)
            rules.append(rule | _layout(options, name))
    if tables:
        found.put("iceberg.tables", "tables", rules)
    else:
        rule = {"from": r"(?:.+\.)?(?P<name>[^.]+)", "into": "lake.landed.{name}"}
        found.spec["tables"] = [rule | ({"schema": {"create": True}} if create else {})]
        if options.get(_DYNAMIC) != "true":
            found.ask("iceberg.tables", "(not set)", "which tables records land in: tables[].into")


def _route(found: Migrated, options: Options, table: str, rule: dict[str, Any]) -> None:
    """Let a table take the records whose field its pattern matches, as a whole."""
    option = f"iceberg.table.{table}.route-regex"
    field = options.get(_ROUTE, "")
    if field and option not in options and option not in (each.option for each in found.undecided):
        found.ask(option, "(not set)", "the connector lands nothing in it then: tables[].where")
    if not field or option not in options:
        return
    rule["where"] = f"regexp_full_match({place(field)}, {quoted(options[option])})"
    rule["schema"] = {**rule.get("schema", {}), "hints": {field: "string"}}
    if option not in dict(found.mapped):
        found.mapped.append((option, "tables[].where"))


def _records(found: Migrated, options: Options) -> None:
    """Translate the converter of values; JsonConverter expects schemas unless it is told not to."""
    converter = options.get("value.converter", "").rpartition(".")[2]
    with_schemas = options.get("value.converter.schemas.enable", "true") != "false"
    if converter == "JsonConverter" and with_schemas:
        found.put("value.converter", "records.format", "json-schema-envelope")
    elif converter == "JsonConverter":
        found.mapped.append(("value.converter", "records.format: json, the default"))
    elif converter in _FORMATS:
        found.put("value.converter", "records.format", _FORMATS[converter])
    else:
        why = "how values are encoded: records.format; without this option the worker's holds"
        found.ask("value.converter", options.get("value.converter", "(not set)"), why)
    registry(found, options)


_FORMATS = {
    "AvroConverter": "avro",
    "ProtobufConverter": "protobuf",
    "JsonSchemaConverter": "json-schema",
    "StringConverter": "text",
    "ByteArrayConverter": "bytes",
}


def _milliseconds(text: str) -> str:
    return f"{int(text)}ms"


_SETTINGS: dict[str, tuple[str, Callable[[str], str]]] = {
    "name": ("name", str),
    "bootstrap.servers": ("kafka.brokers", str),
    "iceberg.control.commit.interval-ms": ("commit.every", _milliseconds),
    "iceberg.control.commit.timeout-ms": ("commit.timeout", _milliseconds),
    "tasks.max": ("spark.master", lambda text: f"local[{int(text)}]"),
}
_DONE = {
    "topics": "",
    "topics.regex": "",
    "iceberg.tables": "",
    "iceberg.tables.auto-create-enabled": "tables[].schema.create",
    "iceberg.tables.default-partition-by": "tables[].partition_by",
    "iceberg.tables.default-commit-branch": "tables[].branch",
    "iceberg.tables.default-id-columns": "tables[].identifier_fields",
    "connector.class": "the connector itself",
    "value.converter": "",
    "value.converter.schemas.enable": "records.format",
}
_PROPERTIES = ("iceberg.tables.auto-create-props.", "iceberg.tables.write-props.")
_OF_TABLE = {
    "partition-by": "tables[].partition_by",
    "commit-branch": "tables[].branch",
    "id-columns": "tables[].identifier_fields",
}
_IN_RULES: dict[str, dict[str, Any]] = {
    "iceberg.tables.evolve-schema-enabled": {"columns": "evolve", "types": "evolve"},
    "iceberg.tables.schema-case-insensitive": {"case_sensitive": False},
}
"""Switches that stand with each rule, under `schema`, once they are on."""
_OFF = {
    **dict.fromkeys(_IN_RULES, "off, as here"),
    _DYNAMIC: "off, as here",
    "iceberg.tables.upsert-mode-enabled": "off, as here: rows are appended",
    "iceberg.tables.replace-null-with-default": "off, as here: a null stays a null",
}
"""Switches that ask for nothing when they are off."""
_LEFT = {
    "iceberg.control.topic": NOT_NEEDED,
    "iceberg.control.group-id-prefix": NOT_NEEDED,
    "iceberg.connect.group-id": NOT_NEEDED,
    "iceberg.control.commit.threads": "commits of tables run side by side by themselves",
    "iceberg.control.commit.max-consecutive-failures": "a commit is tried until its fate is known",
    "iceberg.catalog": "a catalog's name for Java alone",
    "iceberg.coordinator.transactional.prefix": NOT_NEEDED,
    "iceberg.tables.schema-force-optional": "created columns are optional anyway",
    "errors.deadletterqueue.topic.replication.factor": "with errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.context.headers.enable": "the quarantine keeps a record's place",
    "value.converter.schemas.cache.size": "a cache of Java",
    "tasks.max.enforce": "with tasks.max",
    "config.action.reload": "secrets are looked up again when they change",
}
_LEFT_BEGINNINGS = {
    "iceberg.kafka.": "clients of the control topic: " + NOT_NEEDED,
    "producer.override.": "nothing is produced",
    "admin.override.": "no topic is made",
    "errors.log.": "what is refused is in the quarantine, and counted in the log",
    "errors.retry.": "what may pass is tried again by itself",
    "key.converter": "a key lands as bytes where source_columns ask for it: records.key_format",
    "header.converter": "headers land where source_columns ask for them",
}
_ASKED = {
    _DYNAMIC: "a field names the table of a record: tables[].route",
    "iceberg.tables.upsert-mode-enabled": "rows are appended here, none is replaced",
    "iceberg.tables.cdc-field": "rows are appended here: what it says of a row does not happen",
    "iceberg.tables.replace-null-with-default": "a null stays a null here: transform.columns",
    "iceberg.hadoop-conf-dir": "a file of Java: keys of the storage, under catalogs",
    "errors.tolerance": "here a record that does not fit is kept in the quarantine, and a table is"
    " parked above quarantine.stop_above",
    "errors.deadletterqueue.topic.name": "refused records go to the table quarantine.into, and to"
    " no topic",
}


def _layout(options: Options, table: str) -> dict[str, Any]:
    """Return a table's branch and identifier fields, its own or the connector's default."""
    found: dict[str, Any] = {}
    for setting, option in (("branch", "commit-branch"), ("identifier_fields", "id-columns")):
        default = options.get(f"iceberg.tables.default-{option}", "")
        value = options.get(f"iceberg.table.{table}.{option}", default).strip()
        if value:
            names = [name.strip() for name in value.split(",")]
            found[setting] = value if setting == "branch" else names
    return found


def _option(found: Migrated, key: str, value: str) -> None:
    of_table = re.fullmatch(rf"iceberg\.table\.(.+)\.({'|'.join(_OF_TABLE)})", key)
    if key in _accounted(found):
        return  # with its table, its converter, or the beginning
    if key in _DONE:
        found.mapped += [(key, _DONE[key])] if _DONE[key] else []
    elif key in _SETTINGS:
        _setting(found, key, value)
    elif key.startswith(_CONSUMER):
        client_option(found, key, key.removeprefix(_CONSUMER), value)
    elif of_table and any(rule["into"] == f"lake.{of_table[1]}" for rule in found.spec["tables"]):
        found.mapped.append((key, _OF_TABLE[of_table[2]]))
    elif key == _ROUTE:
        _routed(found, key, value)
    elif key.startswith(_PROPERTIES):
        _property(found, key, value)
    else:
        _switch(found, key, value.strip().lower(), value)


def _switch(found: Migrated, key: str, plain: str, value: str) -> None:
    """Account for what is on or off, and for what has no setting of its own here."""
    beginning = next((each for each in _LEFT_BEGINNINGS if key.startswith(each)), "")
    if key in _OFF and plain == "false":
        found.leave(key, _OFF[key])
    elif key in _IN_RULES and plain == "true":
        for rule in found.spec["tables"]:
            rule.setdefault("schema", {}).update(_IN_RULES[key])
        found.mapped.append((key, f"tables[].schema: {', '.join(_IN_RULES[key])}"))
    elif key in _ASKED:
        found.ask(key, value, _ASKED[key])
    elif key in _LEFT or beginning:
        found.leave(key, _LEFT.get(key) or _LEFT_BEGINNINGS[beginning])
    else:
        found.ask(key, value)


def _accounted(found: Migrated) -> set[str]:
    told = {option for option, _ in [*found.mapped, *found.left]}
    return told | {each.option for each in found.questions()}


def _setting(found: Migrated, key: str, value: str) -> None:
    setting, form = _SETTINGS[key]
    try:
        found.put(key, setting, form(value))
    except ValueError:
        found.ask(key, value, NO_NUMBER)


def _routed(found: Migrated, key: str, value: str) -> None:
    if any("where" in rule for rule in found.spec["tables"]):
        found.mapped.append((key, "tables[].where"))
    else:
        found.ask(
            key, value, "which table a record lands in: one rule a table, with where or route"
        )


def _property(found: Migrated, key: str, value: str) -> None:
    """Keep a property of the tables that are made, or written, with each rule."""
    name = re.sub(rf"^(?:{'|'.join(map(re.escape, _PROPERTIES))})", "", key)
    if is_secret_name(name):
        found.leave(key, "a secret is not copied, and a table shows its properties to everybody")
        return
    for rule in found.spec["tables"]:
        rule.setdefault("properties", {})[name] = value
    found.mapped.append((key, "tables[].properties"))


def _partition_fields(text: str) -> list[str]:
    parts = re.findall(r"[^,(]+(?:\([^)]*\))?", text)
    return [partition_field(part) for part in parts if part.strip()]
