"""Flink SQL from Kafka into Iceberg or Delta becomes a spec: each INSERT a table.

Invariant: every statement, option and declared column is accounted for; what a SELECT computes or
leaves out, and what a column is computed from, is undecided.

Source: Flink, "Apache Kafka SQL Connector", "CREATE TABLE"; Iceberg, "Flink Writes".
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from penstock.app.init.migrate.account import Migrated, Options, Question, delta_table, unknown
from penstock.app.init.migrate.catalog_options import catalog_of
from penstock.app.init.migrate.flink_changes import changes, primary_key
from penstock.app.init.migrate.flink_options import OTHERWISE, SOURCE, of_sink, shared
from penstock.app.init.migrate.flink_script import (
    Declared,
    Insert,
    Script,
    script_of,
    without_hints,
)

_COMPUTED = re.compile(
    r"(?P<watermark>WATERMARK\s+FOR\b)|(?P<key>(?:CONSTRAINT\s+\S+\s+)?PRIMARY\s+KEY\b)"
    r"|(?P<column>`[^`]+`|\w+)\s+"
    r"(?:(?P<computed>AS\b)|.*\b(?P<metadata>METADATA)\b|[^']*\b(?P<inline>PRIMARY\s+KEY)\b)",
    re.IGNORECASE | re.DOTALL,
)
_DECIDE = {
    "watermark": "rows land in no order of time; metrics show how far a table is valid",
    "key": "rows are appended here without  tables[].mode: upsert  or cdc, and keys",
    "inline": "rows are appended here without  tables[].mode: upsert  or cdc, and keys",
    "computed": "write it as SQL under transform.columns",
    "metadata": "write it as SQL under transform.columns, over _kafka_timestamp and others of"
    " source_columns",
}
_OFFSET = re.compile(r"partition:(\d+),offset:(\d+)")
_FROM = re.compile(r"\s+FROM\s+", re.IGNORECASE)
_OF_TABLES = re.compile(r"(write|read|history|commit|format|upsert|overwrite|distribution)[.-]")
_OF_SINKS = {"catalog-database", "catalog-table", "catalog-name", "connector"}


def flink(text: str) -> Migrated:
    """Translate a script. Raises InvalidError (P165) when nothing goes from Kafka to a table."""
    found = Migrated("Flink SQL")
    script, rules = script_of(found, text), []
    script.inserts = script.inserts or _only_pair(script)
    for insert in script.inserts:
        source = script.tables.get(insert.source, Declared({"connector": ""}))
        if "kafka" in source.options["connector"]:
            topic = _source(found, insert.source, source, insert.from_options)
            rules.append(_sink(found, script, insert, topic, source))
        else:
            why = "it does not read from a table of connector kafka"
            found.ask(f"INSERT INTO {insert.sink}", insert.select, why)
    _unused(found, script)
    if not rules:
        raise unknown("it needs a table of connector kafka, and one of Iceberg or Delta")
    if "catalogs" not in found.spec:
        raise unknown("no INSERT leads into a table of Iceberg or Delta")
    topics = [each["from"] for each in rules]
    for number, rule in enumerate(rules):
        if rule["from"] in topics[number + 1 :]:
            rule["continue"] = True
    found.spec["tables"] = rules
    return found


def _unused(found: Migrated, script: Script) -> None:
    used = {name for each in script.inserts for name in (each.sink, each.source)}
    for name in (each for each in script.tables if each not in used):
        found.leave(f"CREATE TABLE {name}", "no INSERT leads from or to it")
    catalogs = {name.partition(".")[0] for name in used}
    for name in (each for each in script.catalogs if each not in catalogs):
        found.leave(f"CREATE CATALOG {name}", "no INSERT leads into it")


def _only_pair(script: Script) -> list[Insert]:
    """Take the one source and the one sink for each other's, where no INSERT names them."""
    sources = [n for n, table in script.tables.items() if "kafka" in table.options["connector"]]
    sinks = [n for n in script.tables if n not in sources]
    if len(sources) == len(sinks) == 1:
        return [Insert(sinks[0], sources[0], "SELECT * FROM it")]
    raise unknown("it needs an INSERT INTO from a table of connector kafka")


def _source(found: Migrated, name: str, table: Declared, hints: Options) -> str:
    kafka = found.spec.setdefault("kafka", {})
    options: Options = {**table.options, **hints}
    topic = options.get("topic", options.get("topic-pattern", ""))
    topics = kafka.setdefault("topics", [])
    entries = [{"pattern": topic}] if "topic" not in options else topic.split(";")
    if all(entry in topics for entry in entries):
        if hints:
            found.ask(f"OPTIONS {', '.join(hints)}", "", OTHERWISE)
        return topic
    topics += entries
    found.mapped.append(("topic" if "topic" in options else "topic-pattern", "kafka.topics"))
    declared = ""
    if options["connector"] != "kafka":
        options, declared = _latest(found, options), primary_key(table)[0]
    _start(found, topic, options)
    for key, value in options.items():
        found.follow(SOURCE, key, value, key.removeprefix("value."))
    for column in (each for each in table.columns if each != declared):
        _column(found, name, column)
    if declared:
        found.leave(f"CREATE TABLE {name}: key", "the message key; tables[].keys are the sink's")
    return topic


def _latest(found: Migrated, options: Options) -> Options:
    """Account for what a source of the latest value of each key reads, and return what is left.

    Source: Flink, "Upsert Kafka SQL Connector": the topic is read from its first record on, and a
    record without a value is a delete of the row that the message key names.
    """
    left = {**options, "scan.startup.mode": "earliest-offset"}
    if options.get("key.format") != "json":
        why = "a record without a value deletes the row of its key there: records.key_format"
        found.ask("connector", options["connector"], why)
        return left
    shared(found, "key.format", "records.key_format", left.pop("key.format"))
    found.mapped.append(("connector", "tables[].tombstones: delete, as with  mode: upsert"))
    return left


def _column(found: Migrated, table: str, declaration: str) -> None:
    if each := _COMPUTED.match(declaration):
        kind = next(kind for kind in _DECIDE if each[kind])
        name = (each["column"] or kind).strip("`")
        found.ask(f"CREATE TABLE {table}: {name}", declaration, _DECIDE[kind])
    else:
        name = declaration.split(None, 1)[0].strip("`")
        found.leave(f"CREATE TABLE {table}: {name}", "fields take the types of the table's columns")


def _start(found: Migrated, topic: str, options: Options) -> None:
    """Begin as the job would for the first time; only `earliest-offset` says where that is."""
    mode = options.get("scan.startup.mode", "")
    startup = {key: value for key, value in options.items() if key.startswith("scan.startup.")}
    value = " ".join(startup.values()) or "group-offsets, the default"
    for key in startup:
        if key != "scan.startup.mode":
            found.leave(key, "with scan.startup.mode")
    before = found.spec["kafka"].get("start")
    start: Any = "latest" if mode == "latest-offset" else "earliest"
    if milliseconds := options.get("scan.startup.timestamp-millis"):
        start = _time(milliseconds) or start
    if pairs := _OFFSET.findall(options.get("scan.startup.specific-offsets", "")):
        start = {topic: {int(n): int(offset) for n, offset in pairs}}
    if isinstance(before, dict) and isinstance(start, dict):
        found.begin("scan.startup.mode", value, {**before, **start})
    elif before not in (None, start):
        found.beginning.append(Question("scan.startup.mode", value, OTHERWISE))
    elif mode == "earliest-offset":
        found.put("scan.startup.mode", "kafka.start", start)
    else:
        found.begin("scan.startup.mode", value, start)


def _time(milliseconds: str) -> str:
    """Write a time as a spec has it, or nothing where the number is none."""
    try:
        at = datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return at.isoformat().replace("+00:00", "Z")


def _sink(
    found: Migrated, script: Script, insert: Insert, topic: str, source: Declared
) -> dict[str, Any]:
    name = insert.sink
    table = script.tables.get(name, Declared({"connector": ""}))
    options, parts = {**table.options, **insert.to_options}, name.split(".")
    rest = {key: value for key, value in options.items() if key != "connector"}
    if options["connector"] == "delta":
        into = delta_table(found, "table-path", options.get("table-path", name))
        rest.pop("table-path", None)
    elif options["connector"] == "iceberg":
        listed = {k: v for k, v in table.options.items() if k not in _OF_SINKS}
        own = {key: value for key, value in listed.items() if not _OF_TABLES.match(key)}
        rest = {key: value for key, value in listed.items() if key not in own}
        rest |= insert.to_options
        catalog = _catalog(found, options.get("catalog-name", "lake"), own)
        database = options.get("catalog-database", "default")
        into = f"{catalog}.{database}.{options.get('catalog-table', parts[-1])}"
        named = sorted(_OF_SINKS & options.keys() - {"connector"})
        found.mapped += [(key, "tables[].into") for key in named]
    elif len(parts) == 3 and parts[0] in script.catalogs:  # noqa: PLR2004  with its catalog
        into = f"{_catalog(found, parts[0], script.catalogs[parts[0]])}.{'.'.join(parts[1:])}"
    else:
        raise unknown(f"{name} is no table of Iceberg or Delta")
    found.mapped.append((f"INSERT INTO {name}", "tables[].into"))
    pattern = "|".join(map(re.escape, topic.split(";"))) if ";" in topic else topic
    rule: dict[str, Any] = {"from": pattern, "into": into}
    if table.partitions:
        rule["partition_by"] = list(table.partitions)
        found.mapped.append(("PARTITIONED BY", "tables[].partition_by"))
    given = {**source.options, **insert.from_options}
    changed = replace(table, columns=()) if options["connector"] == "delta" else table
    said = changes(found, rule, (name, changed), given, rest)
    for key in sorted(rest.keys() - {*said}):
        of_sink(found, rule, key, rest[key])
    for column in table.columns:
        if column not in said:
            _column(found, name, column)
    _selected(found, name, insert.select)
    return rule


def _catalog(found: Migrated, name: str, options: Options) -> str:
    """Put a catalog into the spec under its own name: others find tables under it, too."""
    fit = re.sub(r"[^a-z0-9_]", "_", name.lower())
    catalog, known = catalog_of(options), set(found.spec.get("catalogs", {}))
    named = found.catalog(fit, catalog.spec)
    kept = found.spec["catalogs"][named]
    for key in [key for key, value in catalog.spec.items() if kept[key] != value]:
        why = f"catalogs.{named} has another one, from the sink before"
        found.ask(key, catalog.spec[key], why)
    if named not in known:
        found.include(catalog, "", f"catalogs.{named}.")
        if named != name:
            why = f"here the catalog is {named}; SQL catalogs are case-sensitive"
            found.leave(name, why)
    return named


def _selected(found: Migrated, sink: str, select: str) -> None:
    plain = without_hints(select)
    listed, _, rest = _FROM.sub("\0", plain, 1).partition("\0")
    if listed.split(None, 1)[-1] != "*":
        why = "records land with all of their fields: transform.columns, schema.columns: drop_value"
        found.ask(f"INSERT INTO {sink}: SELECT", listed, why)
    if condition := rest.partition(" ")[2].strip():
        why = "which records land: tables[].where, in DuckDB's SQL"
        found.ask(f"INSERT INTO {sink}: FROM", condition, why)
