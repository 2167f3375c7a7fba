"""A configuration of the Iceberg sink of Kafka Connect becomes a spec.

Invariants: every option is mapped, left with a reason, or undecided; a default that the connector
has without saying so (which records a converter reads, where its group is) is no exception.

Source: Iceberg, "Kafka Connect", Configuration; Kafka, "Sink Connector Configs".
"""

from __future__ import annotations

import re
from typing import Any

from penstock.app.init.migrate.account import (
    NOT_NEEDED,
    Migrated,
    Options,
    Rules,
    asked,
    elsewhere,
    milliseconds,
    names_in,
    partition_field,
    to,
    unknown,
    with_setting,
)
from penstock.app.init.migrate.catalog_options import catalog_of
from penstock.app.init.migrate.client_options import CLIENT, RESET
from penstock.app.init.migrate.connect_changes import CDC, ID_COLUMNS, UPSERT, changes, identifying
from penstock.app.init.migrate.connect_records import records, transforms
from penstock.spec.language.expressions import place, quoted
from penstock.spec.secrets import is_secret_name

_CATALOG = "iceberg.catalog."
_ROUTE = "iceberg.tables.route-field"
_DYNAMIC = "iceberg.tables.dynamic-enabled"
_PROPERTIES = ("iceberg.tables.auto-create-props.", "iceberg.tables.write-props.")
_CONSUMER = "consumer.override."
_RESETS = (f"{_CONSUMER}{RESET}", f"consumer.{RESET}", RESET)


def connect_sink(options: Options) -> Migrated:
    """Translate what `connect_config` reads. Raises InvalidError (P165)."""
    if not any(key.startswith("iceberg.") for key in options):
        raise unknown(_why_unknown(options))
    found = Migrated("the Iceberg sink of Kafka Connect")
    found.group = options.get("iceberg.connect.group-id") or options.get(
        "consumer.override.group.id", f"connect-{options.get('name', '')}"
    )
    named = {k.removeprefix(_CATALOG): v for k, v in options.items() if k.startswith(_CATALOG)}
    catalog = catalog_of(named)
    found.spec["catalogs"] = {"lake": catalog.spec}
    found.include(catalog, _CATALOG, "catalogs.lake.")
    if "topics.regex" in options:
        found.put("topics.regex", "kafka.topics", [{"pattern": options["topics.regex"]}])
    else:
        found.put("topics", "kafka.topics", names_in(options.get("topics", "")))
    _tables(found, options)
    records(found, options)
    _begin(found, options)
    transforms(found, options)
    changes(found, options)
    noted = {option for option, _ in [*found.mapped, *found.unmapped]}
    noted |= {each.option for each in found.questions()}
    for key, value in options.items():
        if key not in noted:  # with its table, its converter, or where it begins
            found.follow(_RULES, key, value)
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


def _tables(found: Migrated, options: Options) -> None:
    create = options.get("iceberg.tables.auto-create-enabled", "false") == "true"
    tables = names_in(options.get("iceberg.tables", ""))
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
                parts = re.findall(r"[^,(]+(?:\([^)]*\))?", fields)
                rule["partition_by"] = [partition_field(part) for part in parts if part.strip()]
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
    """Let a table take the records with a field that its pattern matches, as a whole."""
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


def _layout(options: Options, table: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for setting, option in (("branch", "commit-branch"), ("identifier_fields", ID_COLUMNS)):
        default = options.get(f"iceberg.tables.default-{option}", "")
        value = options.get(f"iceberg.table.{table}.{option}", default).strip()
        if value:
            names = [name.strip() for name in value.split(",")]
            found[setting] = value if setting == "branch" else names
    return found


def _of_table(found: Migrated, key: str, value: str) -> None:
    """Account for an option of one table, which its rule has; without a rule it is unknown."""
    table, _, option = key.removeprefix("iceberg.table.").rpartition(".")
    if not any(rule["into"] == f"lake.{table}" for rule in found.spec["tables"]):
        found.ask(key, value)
    elif option == ID_COLUMNS:
        identifying(found, key, value)
    else:
        found.mapped.append((key, _OF_TABLES[option]))


def _route_field(found: Migrated, key: str, value: str) -> None:
    if any("where" in rule for rule in found.spec["tables"]):
        found.mapped.append((key, "tables[].where"))
    else:
        why = "which table a record lands in: one rule a table, with where or route"
        found.ask(key, value, why)


def _in_rules(found: Migrated, key: str, _: str) -> None:
    for rule in found.spec["tables"]:
        rule.setdefault("schema", {}).update(_SWITCHES[key])
    found.mapped.append((key, f"tables[].schema: {', '.join(_SWITCHES[key])}"))


def _property(found: Migrated, key: str, value: str) -> None:
    """Keep a property of the tables that are made, or written, with each rule."""
    name = re.sub(rf"^(?:{'|'.join(map(re.escape, _PROPERTIES))})", "", key)
    if is_secret_name(name):
        found.leave(key, "a secret is not copied, and a table shows its properties to everybody")
        return
    for rule in found.spec["tables"]:
        rule.setdefault("properties", {})[name] = value
    found.mapped.append((key, "tables[].properties"))


def _dead_letters(found: Migrated, key: str, value: str) -> None:
    """Publish what is rejected into a topic as well; without a name there is none."""
    if not value.strip():
        found.leave(key, "off, as here without  publish")
        return
    found.spec["publish"] = [
        {"name": "dead-letters", "from": {"quarantine": "all"}, "into": value.strip()}
    ]
    found.spec["quarantine"] = {"into": "lake.ops.quarantine", "headers": "keep"}
    found.mapped.append((key, "publish[].into, quarantine.headers"))


_OF_TABLES = {
    "partition-by": "tables[].partition_by",
    "commit-branch": "tables[].branch",
}
_SWITCHES: dict[str, dict[str, Any]] = {
    "iceberg.tables.evolve-schema-enabled": {"columns": "evolve", "types": "evolve"},
    "iceberg.tables.schema-case-insensitive": {"case_sensitive": False},
}
_RULES: Rules = {
    f"{_CATALOG}* transforms* predicates*": elsewhere,
    "topics topics.regex iceberg.tables value.converter": elsewhere,
    "iceberg.tables.auto-create-enabled": with_setting("tables[].schema.create"),
    "iceberg.tables.default-partition-by": with_setting("tables[].partition_by"),
    "iceberg.tables.default-commit-branch": with_setting("tables[].branch"),
    f"iceberg.tables.default-{ID_COLUMNS}": identifying,
    "connector.class": with_setting("the connector itself"),
    "value.converter.schemas.enable": with_setting("records.format"),
    "name": to("name"),
    "bootstrap.servers": to("kafka.brokers"),
    "iceberg.control.commit.interval-ms": to("commit.every", milliseconds),
    "iceberg.control.commit.timeout-ms": to("commit.timeout", milliseconds),
    "tasks.max": to("spark.master", lambda text: f"local[{int(text)}]"),
    f"{_CONSUMER}*": lambda found, key, value: found.follow(
        CLIENT, key, value, key.removeprefix(_CONSUMER)
    ),
    " ".join(f"iceberg.table.*.{option}" for option in (*_OF_TABLES, ID_COLUMNS)): _of_table,
    _ROUTE: _route_field,
    " ".join(f"{each}*" for each in _PROPERTIES): _property,
    " ".join(f"{each}=false" for each in (_DYNAMIC, *_SWITCHES)): "off, as here",
    f"{UPSERT}=false": "off, as here without  tables[].mode: upsert",
    "iceberg.tables.replace-null-with-default=false": "off, as here: a null stays a null",
    " ".join(f"{each}=true" for each in _SWITCHES): _in_rules,
    _DYNAMIC: asked("a field names the table of a record: tables[].route"),
    UPSERT: asked("whether a record replaces the row of its key: tables[].mode, keys"),
    CDC: "it names no field",
    "iceberg.tables.replace-null-with-default": asked(
        "a null stays a null here: transform.columns"
    ),
    "iceberg.hadoop-conf-dir": asked("a file of Java: keys of the storage, under catalogs"),
    "errors.tolerance": asked(
        "here a record that does not fit is kept in the quarantine, and a table is parked above"
        " quarantine.stop_above"
    ),
    "errors.deadletterqueue.topic.name": _dead_letters,
    "iceberg.control.topic iceberg.control.group-id-prefix iceberg.connect.group-id"
    " iceberg.coordinator.transactional.prefix": NOT_NEEDED,
    "iceberg.control.commit.threads": "commits of tables run side by side by themselves",
    "iceberg.control.commit.max-consecutive-failures": "a commit is retried until it is settled",
    "iceberg.catalog": "a catalog's name for Java alone",
    "iceberg.tables.schema-force-optional": "created columns are optional anyway",
    "errors.deadletterqueue.topic.replication.factor": "new topics have the brokers' default",
    "errors.deadletterqueue.context.headers.enable": "a dead letter has headers  penstock.*",
    "value.converter.schemas.cache.size": "a cache of Java",
    "tasks.max.enforce": "with tasks.max",
    "config.action.reload": "secrets are looked up again when they change",
    "iceberg.kafka.*": "clients of the control topic: " + NOT_NEEDED,
    "producer.override.*": "nothing is produced",
    "admin.override.*": "no topic is made",
    "errors.log.*": "what is refused is in the quarantine, and counted in the log",
    "errors.retry.*": "what may pass is tried again by itself",
    "key.converter*": "a key lands as bytes where source_columns ask for it: records.key_format",
    "header.converter*": "headers land where source_columns ask for them",
    "*": asked(),
}


def _why_unknown(options: Options) -> str:
    if "clusters" in options:
        return (
            "it is MirrorMaker 2's own file; what is translated is the configuration of its"
            " MirrorSourceConnector, as Kafka Connect has it"
        )
    if named := options.get("connector.class"):
        return f"the connector {named[:200]} is not known"
    return "no option of it begins with iceberg., and it is no other that is known"
