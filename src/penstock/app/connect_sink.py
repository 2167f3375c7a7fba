"""A configuration of the Iceberg sink of Kafka Connect becomes a spec."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.app.catalog_options import account_of, catalog_of
from penstock.app.connect_config import options_of
from penstock.app.connect_registry import registry
from penstock.app.migrated import NO_COUNTERPART, NO_NUMBER, NOT_NEEDED, Migrated, Options, unknown
from penstock.spec.expressions import place, quoted
from penstock.spec.secrets import is_secret_name

_CATALOG = "iceberg.catalog."
_ROUTE = "iceberg.tables.route-field"


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
    for key, value in options.items():
        if not key.startswith(_CATALOG):
            _option(found, key, value)
    return found


def _catalog(found: Migrated, options: Options) -> None:
    named = {k.removeprefix(_CATALOG): v for k, v in options.items() if k.startswith(_CATALOG)}
    catalog = catalog_of(named)
    found.spec["catalogs"] = {"lake": catalog.settings}
    found.mapped += [(f"{_CATALOG}{key}", setting) for key, setting in account_of(catalog, "lake")]
    found.left += [(f"{_CATALOG}{key}", why) for key, why in catalog.left]


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


def _route(found: Migrated, options: Options, table: str, rule: dict[str, Any]) -> None:
    """Let a table take the records whose field its pattern matches, as a whole."""
    option = f"iceberg.table.{table}.route-regex"
    field = options.get(_ROUTE, "")
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
    elif converter:
        found.leave("value.converter")
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
    "consumer.override.bootstrap.servers": ("kafka.brokers", str),
    "consumer.override.auto.offset.reset": ("kafka.start", str),
    "consumer.override.security.protocol": ("kafka.security.protocol", str.lower),
    "consumer.override.sasl.mechanism": ("kafka.security.mechanism", str.lower),
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
_DEBEZIUM = ("DebeziumTransform", "ExtractNewRecordState")
_OF_TABLE = {
    "partition-by": "tables[].partition_by",
    "commit-branch": "tables[].branch",
    "id-columns": "tables[].identifier_fields",
}
_LEFT = {
    "iceberg.control.topic": NOT_NEEDED,
    "iceberg.control.group-id-prefix": NOT_NEEDED,
    "iceberg.connect.group-id": NOT_NEEDED,
    "iceberg.control.commit.threads": "commits of tables run side by side by themselves",
    "iceberg.tables.dynamic-enabled": "a field that names the table:  tables[].route",
    "iceberg.catalog": "a catalog's name for Java alone",
    "iceberg.coordinator.transactional.prefix": NOT_NEEDED,
    "iceberg.hadoop-conf-dir": "a file of Java: write keys of the storage",
    "iceberg.tables.evolve-schema-enabled": "see schema.columns in the reference of the spec",
    "iceberg.tables.schema-force-optional": "created columns are optional anyway",
    "iceberg.tables.schema-case-insensitive": "write  case_sensitive: false  under schema",
    "iceberg.tables.upsert-mode-enabled": "rows are appended; there is no upsert",
    "iceberg.tables.cdc-field": "rows are appended; there is no upsert",
    "consumer.override.sasl.jaas.config": "a secret is not copied: write username and password,"
    " as references, under kafka.security",
    "errors.tolerance": "records that do not fit always go to quarantine",
    "errors.deadletterqueue.topic.name": "records that do not fit go to the quarantine table",
    "key.converter": "keys are bytes in a source column, see records.key_format",
}


def _layout(options: Options, table: str) -> dict[str, Any]:
    """Give a table's branch and identifier fields, its own or the connector's default."""
    found: dict[str, Any] = {}
    for setting, option in (("branch", "commit-branch"), ("identifier_fields", "id-columns")):
        default = options.get(f"iceberg.tables.default-{option}", "")
        value = options.get(f"iceberg.table.{table}.{option}", default).strip()
        if value:
            names = [name.strip() for name in value.split(",")]
            found[setting] = value if setting == "branch" else names
    return found


def _option(found: Migrated, key: str, value: str) -> None:
    if key in dict(found.mapped):
        return  # with its table
    if key in _DONE:
        found.mapped += [(key, _DONE[key])] if _DONE[key] else []
    elif key in _SETTINGS:
        setting, form = _SETTINGS[key]
        try:
            found.put(key, setting, form(value))
        except ValueError:
            found.leave(key, NO_NUMBER)
    elif of_table := re.fullmatch(rf"iceberg\.table\..+\.({'|'.join(_OF_TABLE)})", key):
        found.mapped.append((key, _OF_TABLE[of_table[1]]))
    elif key == _ROUTE:
        _routed(found, key)
    elif key.startswith(_PROPERTIES):
        _property(found, key, value)
    elif re.fullmatch(r"transforms\.[^.]+\.type", key) and value.endswith(_DEBEZIUM):
        found.put(key, "records.envelope", "debezium")
    else:
        why = NOT_NEEDED if key.startswith("iceberg.kafka.") else NO_COUNTERPART
        found.leave(key, _LEFT.get(key, why))


def _routed(found: Migrated, key: str) -> None:
    if any("where" in rule for rule in found.spec["tables"]):
        found.mapped.append((key, "tables[].where"))
    else:
        found.leave(key, "routing by a field: write one rule a table, with where")


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
    fields = [part.strip() for part in parts if part.strip()]
    return [re.sub(r"^(year|month|day|hour)s\(", r"\1(", each) for each in fields]
