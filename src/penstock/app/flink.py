"""Flink SQL from Kafka into Iceberg or Delta becomes a spec: each INSERT a table.

Read are SET, CREATE CATALOG, USE, CREATE TABLE and INSERT INTO … SELECT … FROM.

Invariant: every statement and option is accounted for; what a SELECT computes is never dropped in
silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from penstock.app.catalog_options import account_of, catalog_of
from penstock.app.migrated import NO_NUMBER, NOT_NEEDED, Migrated, Options, delta_table, unknown

_COMMENTS = re.compile(r"('(?:[^']|'')*')|--[^\n]*|/\*(?!\+).*?\*/", re.DOTALL)
_STATEMENT = re.compile(r"(?:'(?:[^']|'')*'|`[^`]*`|[^;'`])+")
_HINTS = re.compile(r"/\*\+\s*OPTIONS\s*\((.*?)\)\s*\*/", re.DOTALL | re.IGNORECASE)
_SET = re.compile(r"SET\s+'([^']+)'\s*=\s*'([^']*)'", re.IGNORECASE)
_NAME = r"[\w.`-]+"
_CATALOG = re.compile(rf"CREATE\s+CATALOG\s+({_NAME})\s+WITH\s*\(", re.IGNORECASE)
_USE = re.compile(rf"USE\s+(CATALOG\s+)?({_NAME})", re.IGNORECASE)
_TABLE = re.compile(
    rf"CREATE\s+(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?({_NAME})\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_PARTITIONED = re.compile(r"PARTITIONED\s+BY\s*\(([^)]*)\)", re.IGNORECASE)
_INSERT = re.compile(
    rf"(?:EXECUTE\s+)?INSERT\s+INTO\s+({_NAME})\s+(.*?\bFROM\s+({_NAME}).*)",
    re.IGNORECASE | re.DOTALL,
)
_AROUND = re.compile(
    r"^(?:(?:EXECUTE|BEGIN)\s+)?STATEMENT\s+SET\s*(?:BEGIN\s+)?|^(?:BEGIN|END)\s*$", re.IGNORECASE
)
_PAIR = re.compile(r"'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'")
_VALUES = re.compile(r"['\"(=]")
"""Where a statement that is not read may begin to hold values, secrets among them."""
_OFFSET = re.compile(r"partition:(\d+),offset:(\d+)")
_STARTS = {"earliest-offset": "earliest", "latest-offset": "latest"}
_FORMATS = {"json": "json", "raw": "bytes", "avro-confluent": "avro"}
_ENVELOPES = {"debezium-json": "debezium", "maxwell-json": "maxwell", "canal-json": "canal"}
_INTERVAL = "execution.checkpointing.interval"
_OTHERWISE = "another source has another one, which holds for all: write a spec for each"
_OF_SINKS = {"catalog-database", "catalog-table", "catalog-name", "connector"}


@dataclass(slots=True)
class _Table:
    options: Options
    partitions: tuple[str, ...]


@dataclass(slots=True)
class _Script:
    """What a script has made, by name: catalogs, tables, and what goes from where to where."""

    catalogs: dict[str, Options] = field(default_factory=dict)
    tables: dict[str, _Table] = field(default_factory=dict)
    inserts: list[tuple[str, str, str]] = field(default_factory=list)
    catalog: str = ""
    database: str = ""

    def named(self, text: str) -> str:
        """Give a table's whole name, as far as a script tells it."""
        parts = [part.strip("`") for part in text.split(".")]
        if len(parts) == 1 and self.database:
            parts = [self.database, *parts]
        if len(parts) == 2 and self.catalog:  # noqa: PLR2004  a database and a table
            parts = [self.catalog, *parts]
        return ".".join(parts)


def flink(text: str) -> Migrated:
    """Translate a script. Raises InvalidError (P165) when nothing goes from Kafka to a table."""
    found, script = Migrated("Flink SQL"), _Script()
    for statement in _statements(text):
        _read(found, script, statement)
    moves = script.inserts or _only_pair(script)
    rules = []
    for sink, source, select in moves:
        if source in script.tables and "kafka" in script.tables[source].options["connector"]:
            topic = _source(found, script.tables[source].options)
            rules.append(_sink(found, script, sink, topic, select))
        else:
            found.leave(f"INSERT INTO {sink}", "it does not read from a table of connector kafka")
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


def _statements(text: str) -> Iterator[str]:
    plain = _COMMENTS.sub(lambda each: each[1] or " ", text)
    for part in _STATEMENT.findall(plain):
        statement = _AROUND.sub("", part.strip()).strip()
        if statement:
            yield statement


def _read(found: Migrated, script: _Script, statement: str) -> None:
    if each := _SET.match(statement):
        if each[1] == _INTERVAL:
            found.put(_INTERVAL, "commit.every", _duration(each[2]))
        else:
            found.leave(each[1])
    elif each := _CATALOG.match(statement):
        script.catalogs[each[1].strip("`")] = dict(_PAIR.findall(statement))
    elif each := _USE.match(statement):
        if each[1]:
            script.catalog, script.database = each[2].strip("`"), ""
        else:
            *catalog, script.database = (part.strip("`") for part in each[2].split("."))
            script.catalog = catalog[0] if catalog else script.catalog
    elif each := _TABLE.match(statement):
        partitioned = _PARTITIONED.search(each[2])
        fields = partitioned[1].split(",") if partitioned else []
        behind = re.split(r"\bWITH\s*\(", each[2], flags=re.IGNORECASE)
        options = dict(_PAIR.findall(behind[-1])) if len(behind) > 1 else {}
        names = tuple(name.strip().strip("`") for name in fields if name.strip())
        script.tables[script.named(each[1])] = _Table({"connector": "", **options}, names)
    elif each := _INSERT.match(statement):
        for hint in _HINTS.findall(statement):
            for key, _ in _PAIR.findall(hint):
                found.leave(f"OPTIONS {key}")
        script.inserts.append((script.named(each[1]), script.named(each[3]), each[2]))
    else:
        found.leave(" ".join(_VALUES.split(statement, 1)[0].split())[:60])


def _duration(text: str) -> str:
    """Write a duration of Flink as a spec has it: `1 min` is 1m, a bare number milliseconds."""
    number, unit = re.sub(r"\D", "", text), re.sub(r"[^a-z]", "", text.lower())
    short = "ms" if unit in ("", "ms") or unit.startswith("milli") else unit[0]
    return f"{number}{short}"


def _only_pair(script: _Script) -> list[tuple[str, str, str]]:
    """Take the one source and the one sink for each other's, where no INSERT tells."""
    sources = [n for n, table in script.tables.items() if "kafka" in table.options["connector"]]
    sinks = [n for n in script.tables if n not in sources]
    if len(sources) == len(sinks) == 1:
        return [(sinks[0], sources[0], "SELECT * FROM it")]
    raise unknown("it needs an INSERT INTO from a table of connector kafka")


def _source(found: Migrated, options: Options) -> str:
    kafka = found.spec.setdefault("kafka", {})
    topic = options.get("topic", options.get("topic-pattern", ""))
    topics = kafka.setdefault("topics", [])
    entries = [{"pattern": topic}] if "topic" not in options else topic.split(";")
    if all(entry in topics for entry in entries):
        return topic
    topics += entries
    found.mapped.append(("topic" if "topic" in options else "topic-pattern", "kafka.topics"))
    for key, value in options.items():
        if key in ("topic", "topic-pattern", "connector"):
            continue
        if key == "properties.bootstrap.servers":
            _put(found, key, "kafka.brokers", value)
        elif key.startswith("scan.startup."):
            _start(found, topic, key, value)
        elif key in ("format", "value.format"):
            _format(found, key, value)
        elif key == "properties.group.id":
            found.leave(key, NOT_NEEDED if found.group in ("", value) else _OTHERWISE)
            found.group = found.group or value
        else:
            found.leave(key)
    return topic


def _put(found: Migrated, key: str, setting: str, value: Any) -> None:
    """Put a setting that holds for all sources; where they differ it is the first one's."""
    block, _, name = setting.partition(".")
    before = found.spec.get(block, {}).get(name, value)
    if setting == "kafka.start" and isinstance(before, dict) and isinstance(value, dict):
        found.put(key, setting, {**before, **value})
    elif before == value:
        found.put(key, setting, value)
    else:
        found.leave(key, _OTHERWISE)


def _start(found: Migrated, topic: str, key: str, value: str) -> None:
    if value in _STARTS:
        _put(found, key, "kafka.start", _STARTS[value])
    elif key == "scan.startup.timestamp-millis":
        _start_at(found, key, value)
    elif pairs := _OFFSET.findall(value):
        _put(found, key, "kafka.start", {topic: {int(n): int(offset) for n, offset in pairs}})
    elif value == "group-offsets":
        found.leave(key, "to begin where its group stands:  penstock init … --offsets")
    else:
        found.leave(key, "told by the option beside it")


def _start_at(found: Migrated, key: str, milliseconds: str) -> None:
    try:
        at = datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        found.leave(key, NO_NUMBER)
    else:
        _put(found, key, "kafka.start", at.isoformat().replace("+00:00", "Z"))


def _format(found: Migrated, key: str, value: str) -> None:
    if value in _FORMATS:
        _put(found, key, "records.format", _FORMATS[value])
    elif value in _ENVELOPES:
        _put(found, key, "records.envelope", _ENVELOPES[value])
    else:
        found.leave(key, f"records of {value} are not read")


def _sink(
    found: Migrated, script: _Script, name: str, topic: str, select: str
) -> dict[str, object]:
    table = script.tables.get(name, _Table({"connector": ""}, ()))
    options, parts = table.options, name.split(".")
    if options["connector"] == "delta":
        delta_table(found, "table-path", topic, options.get("table-path", name))
        (rule,) = found.spec.pop("tables")
        rest = options.keys() - {"connector", "table-path"}
    elif options["connector"] == "iceberg":
        own = {key: value for key, value in options.items() if key not in _OF_SINKS}
        catalog = _catalog(found, options.get("catalog-name", "lake"), own)
        database = options.get("catalog-database", "default")
        rule = {"into": f"{catalog}.{database}.{options.get('catalog-table', parts[-1])}"}
        rest = set()
    elif len(parts) == 3 and parts[0] in script.catalogs:  # noqa: PLR2004  with its catalog
        rule = {
            "into": f"{_catalog(found, parts[0], script.catalogs[parts[0]])}.{'.'.join(parts[1:])}"
        }
        rest = options.keys() - {"connector"}
    else:
        raise unknown(f"{name} is no table of Iceberg or Delta")
    found.mapped.append((f"INSERT INTO {name}", "tables[].into"))
    if table.partitions:
        rule["partition_by"] = list(table.partitions)
        found.mapped.append(("PARTITIONED BY", "tables[].partition_by"))
    for key in sorted(rest):
        found.leave(key)
    _selected(found, name, select)
    return {"from": "|".join(map(re.escape, topic.split(";"))) if ";" in topic else topic, **rule}


def _catalog(found: Migrated, name: str, options: Options) -> str:
    """Put a catalog into the spec under its own name: others find tables under it, too."""
    fit = re.sub(r"[^a-z0-9_]", "_", name.lower())
    catalog, known = catalog_of(options), set(found.spec.get("catalogs", {}))
    named = found.catalog(fit, catalog.settings)
    kept = found.spec["catalogs"][named]
    for key in [key for key, value in catalog.settings.items() if kept[key] != value]:
        found.leave(key, f"catalogs.{named} has another one, from the sink before")
    if named not in known:
        found.mapped += account_of(catalog, named)
        found.left += catalog.left
        if named != name:
            why = f"here the catalog is {named}; SQL catalogs tell names apart by every letter"
            found.leave(name, why)
    return named


def _selected(found: Migrated, sink: str, select: str) -> None:
    """Note what a SELECT does beyond taking records as they are."""
    plain = " ".join(_HINTS.sub(" ", select).split())
    listed, _, behind = (
        plain.partition(" FROM ") if " FROM " in plain else plain.partition(" from ")
    )
    if listed.split(None, 1)[-1] != "*":
        why = "records land with all of their fields; computed ones:  transform.columns"
        found.leave(f"INSERT INTO {sink} {listed}"[:80], why)
    if condition := behind.partition(" ")[2].strip():
        found.leave(condition[:80], "write conditions as  tables[].where, in DuckDB's SQL")
