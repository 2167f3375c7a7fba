"""`penstock init --from-config`: another system's configuration becomes a spec, with an account.

Known are the Iceberg sink of Kafka Connect (properties or JSON), a command line of
kafka-delta-ingest, and Flink SQL from Kafka into Iceberg or Delta.

Invariant: every option that was read is accounted for: mapped to a setting, or left with a reason.
"""

from __future__ import annotations

import json
import re
from typing import Any

from penstock.app.delta_ingest import delta_ingest
from penstock.app.migrated import (
    NO_COUNTERPART,
    NOT_NEEDED,
    Migrated,
    Options,
    delta_table,
    unknown,
)


def migrated(text: str) -> Migrated:
    """Translate a configuration. Raises InvalidError (P165) when it is none that is known."""
    if re.search(r"\bCREATE\s+TABLE\b", text, re.IGNORECASE):
        found = _flink(text)
    elif "kafka-delta-ingest" in text:
        found = delta_ingest(text)
    else:
        found = _connect(_connect_options(text))
    spec = found.spec
    spec.setdefault("name", "migrated")
    spec["name"] = re.sub(r"[^a-z0-9_-]", "-", str(spec["name"]).lower()).strip("-")[:64]
    kafka = spec.setdefault("kafka", {})
    kafka.setdefault("brokers", "${env:BROKERS:-localhost:9092}")
    catalog = next(iter(spec["catalogs"]))
    spec.setdefault("quarantine", {"into": f"{catalog}.ops.quarantine"})
    order = ("name", "kafka", "records", "catalogs", "tables", "commit", "quarantine", "spark")
    found.spec = {key: spec[key] for key in order if key in spec}
    return found


def _connect_options(text: str) -> Options:
    """Read properties, a flat JSON object, or `{"name": …, "config": {…}}`."""
    if text.lstrip().startswith("{"):
        try:
            data = json.loads(text)
        except ValueError as error:
            raise unknown(f"it is no JSON: {error}") from error
        config = data.get("config", data)
        named = {"name": data["name"]} if "name" in data else {}
        return {**named, **{key: str(value) for key, value in config.items()}}
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    return {key.strip(): value.strip() for key, _, value in pairs}


def _connect(options: Options) -> Migrated:
    if not any(key.startswith("iceberg.") for key in options):
        raise unknown("no option of it begins with iceberg., and it is no other that is known")
    found = Migrated("the Iceberg sink of Kafka Connect")
    found.spec["catalogs"] = {"lake": {"type": "sql"}}
    create = options.get("iceberg.tables.auto-create-enabled", "false") == "true"
    _connect_topics(found, options)
    _connect_tables(found, options, create=create)
    _connect_records(found, options)
    for key, value in options.items():
        _connect_option(found, key, value)
    return found


def _connect_topics(found: Migrated, options: Options) -> None:
    if "topics.regex" in options:
        pattern = options["topics.regex"]
        found.put("topics.regex", "kafka.topics", [{"pattern": pattern}])
    else:
        topics = [name.strip() for name in options.get("topics", "").split(",") if name.strip()]
        found.put("topics", "kafka.topics", topics)


def _connect_tables(found: Migrated, options: Options, *, create: bool) -> None:
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
            rules.append(rule | _connect_layout(options, name))
    if tables:
        found.put("iceberg.tables", "tables", rules)
    else:
        rule = {"from": r"(?:.+\.)?(?P<name>[^.]+)", "into": "lake.landed.{name}"}
        found.spec["tables"] = [rule | ({"schema": {"create": True}} if create else {})]


def _connect_records(found: Migrated, options: Options) -> None:
    """Translate the converter of values; JsonConverter expects schemas unless it is told not to."""
    converter = options.get("value.converter", "").rpartition(".")[2]
    with_schemas = options.get("value.converter.schemas.enable", "true") != "false"
    if converter == "JsonConverter" and with_schemas:
        found.put("value.converter", "records.format", "json-schema-envelope")
    elif converter == "JsonConverter":
        found.mapped.append(("value.converter", "records.format: json, the default"))
    elif converter in CONNECT_FORMATS:
        found.put("value.converter", "records.format", CONNECT_FORMATS[converter])
    elif converter:
        found.leave("value.converter")
    if "value.converter.schema.registry.url" in options:
        url = options["value.converter.schema.registry.url"].partition(",")[0]
        found.put("value.converter.schema.registry.url", "records.registry.url", url)


CONNECT_FORMATS = {
    "AvroConverter": "avro",
    "ProtobufConverter": "protobuf",
    "JsonSchemaConverter": "json-schema",
    "StringConverter": "text",
    "ByteArrayConverter": "bytes",
}
CONNECT_SETTINGS = {
    "name": "name",
    "bootstrap.servers": "kafka.brokers",
    "consumer.override.bootstrap.servers": "kafka.brokers",
}
CONNECT_DONE = {
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
    "value.converter.schema.registry.url": "",
}
CONNECT_OF_TABLE = {
    "partition-by": "tables[].partition_by",
    "commit-branch": "tables[].branch",
    "id-columns": "tables[].identifier_fields",
}
CONNECT_LEFT = {
    "iceberg.control.topic": NOT_NEEDED,
    "iceberg.control.group-id-prefix": NOT_NEEDED,
    "iceberg.connect.group-id": NOT_NEEDED,
    "iceberg.control.commit.threads": "commits of tables run side by side by themselves",
    "iceberg.tables.route-field": "routing by a field: write one rule a table",
    "iceberg.tables.dynamic-enabled": "routing by a field: write one rule a table",
    "iceberg.tables.evolve-schema-enabled": "see schema.columns in the reference of the spec",
    "iceberg.tables.schema-force-optional": "created columns are optional anyway",
    "iceberg.tables.schema-case-insensitive": "write  case_sensitive: false  under schema",
    "iceberg.tables.upsert-mode-enabled": "rows are appended; there is no upsert",
    "iceberg.tables.cdc-field": "rows are appended; there is no upsert",
    "errors.tolerance": "records that do not fit always go to quarantine",
    "errors.deadletterqueue.topic.name": "records that do not fit go to the quarantine table",
    "key.converter": "keys are bytes in a source column, see records.key_format",
}


def _connect_layout(options: Options, table: str) -> dict[str, Any]:
    """Give a table's branch and identifier fields, its own or the connector's default."""
    found: dict[str, Any] = {}
    for setting, option in (("branch", "commit-branch"), ("identifier_fields", "id-columns")):
        default = options.get(f"iceberg.tables.default-{option}", "")
        value = options.get(f"iceberg.table.{table}.{option}", default).strip()
        if value:
            names = [name.strip() for name in value.split(",")]
            found[setting] = value if setting == "branch" else names
    return found


def _connect_option(found: Migrated, key: str, value: str) -> None:
    if key in CONNECT_DONE:
        if CONNECT_DONE[key]:
            found.mapped.append((key, CONNECT_DONE[key]))
    elif key in CONNECT_SETTINGS:
        found.put(key, CONNECT_SETTINGS[key], value)
    elif key == "iceberg.control.commit.interval-ms":
        found.put(key, "commit.every", f"{int(value)}ms")
    elif key == "iceberg.control.commit.timeout-ms":
        found.put(key, "commit.timeout", f"{int(value)}ms")
    elif key == "consumer.override.auto.offset.reset":
        found.put(key, "kafka.start", value)
    elif key == "tasks.max":
        found.put(key, "spark.master", f"local[{int(value)}]")
    elif key.startswith("iceberg.catalog."):
        _catalog_option(found, key, key.removeprefix("iceberg.catalog."), value)
    elif of_table := re.fullmatch(rf"iceberg\.table\..+\.({'|'.join(CONNECT_OF_TABLE)})", key):
        found.mapped.append((key, CONNECT_OF_TABLE[of_table[1]]))
    else:
        found.leave(key, CONNECT_LEFT.get(key, NO_COUNTERPART))


def _catalog_option(found: Migrated, option: str, key: str, value: str) -> None:
    secret = re.search(r"password|secret|token|credential|access-key", key, re.IGNORECASE)
    if secret:
        name = re.sub(r"\W", "_", key).upper()
        found.put(option, "catalogs.lake." + key.replace(".", "\0"), f"${{env:{name}}}")
        found.leave(option, f"a secret is not copied: export {name}=…")
    elif key in ("catalog-impl", "io-impl"):
        found.leave(option, "a class of Java")
    else:
        found.put(option, "catalogs.lake." + key.replace(".", "\0"), value)
    lake = found.spec["catalogs"]["lake"]
    for each in [name for name in lake if "\0" in name]:
        lake[each.replace("\0", ".")] = lake.pop(each)
    found.mapped[:] = [(name, setting.replace("\0", ".")) for name, setting in found.mapped]


def _partition_fields(text: str) -> list[str]:
    parts = re.findall(r"[^,(]+(?:\([^)]*\))?", text)
    fields = [part.strip() for part in parts if part.strip()]
    return [re.sub(r"^(year|month|day|hour)s\(", r"\1(", each) for each in fields]


_TABLE = re.compile(
    r"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w.`]+)\s*(?:\(.*?\)\s*)?"
    r"(?:PARTITIONED\s+BY\s*\((?P<fields>[^)]*)\)\s*)?WITH\s*\((?P<options>.*?)\)\s*;",
    re.IGNORECASE | re.DOTALL,
)
_PAIR = re.compile(r"'(?P<key>[^']+)'\s*=\s*'(?P<value>[^']*)'")
_STARTS = {"earliest-offset": "earliest", "latest-offset": "latest"}


def _flink(text: str) -> Migrated:
    found = Migrated("Flink SQL")
    tables = {
        each["name"]: (dict(_PAIR.findall(each["options"])), each["fields"] or "")
        for each in _TABLE.finditer(text)
    }
    sources = [o for o, _ in tables.values() if "kafka" in o.get("connector", "")]
    sinks = [
        (n, o, f) for n, (o, f) in tables.items() if o.get("connector") in ("iceberg", "delta")
    ]
    if not sources or not sinks:
        raise unknown("it needs a table with connector kafka and one with iceberg or delta")
    for key, value in _PAIR.findall(_TABLE.sub("", text)):
        if key == "execution.checkpointing.interval":
            found.put(key, "commit.every", value.replace(" ", ""))
        else:
            found.leave(key)
    topic = _flink_source(found, sources[0])
    _flink_sink(found, topic, sinks[0])
    return found


def _flink_source(found: Migrated, options: Options) -> str:
    topic = options.get("topic", options.get("topic-pattern", ""))
    for key, value in options.items():
        if key == "topic":
            found.put(key, "kafka.topics", [value])
        elif key == "topic-pattern":
            found.put(key, "kafka.topics", [{"pattern": value}])
        elif key == "properties.bootstrap.servers":
            found.put(key, "kafka.brokers", value)
        elif key == "scan.startup.mode" and value in _STARTS:
            found.put(key, "kafka.start", _STARTS[value])
        elif key == "properties.group.id":
            found.leave(key, NOT_NEEDED)
        elif (key, value) in {("format", "json"), ("value.format", "json"), ("connector", "kafka")}:
            found.mapped.append((key, "the default"))
        else:
            found.leave(key)
    return topic


def _flink_sink(found: Migrated, topic: str, sink: tuple[str, Options, str]) -> None:
    name, options, fields = sink
    if options["connector"] == "delta":
        delta_table(found, "table-path", topic, options.get("table-path", name))
        skipped = {"connector", "table-path"}
    else:
        catalog = {"type": options.get("catalog-type", "sql")}
        catalog |= {key: options[key] for key in ("uri", "warehouse") if key in options}
        found.put("catalog-type, uri, warehouse", "catalogs", {"lake": catalog})
        table = options.get("catalog-table", name.split(".")[-1].strip("`"))
        into = f"lake.{options.get('catalog-database', 'default')}.{table}"
        found.put("catalog-database, catalog-table", "tables", [{"from": topic, "into": into}])
        skipped = {"connector", "catalog-type", "uri", "warehouse", "catalog-database"}
        skipped |= {"catalog-table", "catalog-name"}
    if fields.strip():
        names = [each.strip().strip("`") for each in fields.split(",")]
        found.spec["tables"][0]["partition_by"] = names
        found.mapped.append(("PARTITIONED BY", "tables[].partition_by"))
    for key in options.keys() - skipped:
        found.leave(key)
