"""Options of a Flink job, of its Kafka sources and of its sinks: what each becomes.

Invariant: an option is left only where it changes neither which records land nor what a row
holds; what is not known is undecided.

Source: Flink, "Configuration", "Apache Kafka SQL Connector", "JSON Format", "Confluent Avro
Format"; Iceberg, "Flink Configuration", write options.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.app.init.migrate.account import NOT_NEEDED, Migrated
from penstock.spec.secrets import is_secret_name

_JOB = {
    r"execution\.checkpointing\..+|state\..+|execution\.savepoint\..+": NOT_NEEDED,
    r"restart-strategy.*|execution\.(runtime-mode|target|attached|shutdown.*)": (
        "a run is started again by who runs it, and goes on where tables stand"
    ),
    r"(jobmanager|taskmanager|parallelism|pipeline|rest|yarn|kubernetes|metrics|cluster)\..+"
    r"|table\.exec\.(resource|mini-batch|async-lookup)\..+|table\.optimizer\..+|sql-client\..+"
    r"|table\.dml-sync|classloader\..+|env\..+|slotmanager\..+": "how Flink runs; see spark",
}
_STATEMENTS = re.compile(
    r"(ADD|REMOVE|SHOW|DESCRIBE|DESC|EXPLAIN|RESET|LOAD|UNLOAD)\b|CREATE\s+DATABASE\b",
    re.IGNORECASE,
)
_SOURCE_LEFT = {
    r"scan\.topic-partition-discovery\.interval": "new partitions are found by themselves",
    r"scan\.parallelism|sink\..+": "how Flink runs",
    r"scan\.bounded\.mode=unbounded": "as here",
    r"value\.fields-include=all": "the default",
    r"(value\.)?json\.(fail-on-missing-field|ignore-parse-errors)=false": "the default",
    r"(value\.)?json\.timestamp-format\.standard=iso-8601": "as here",
    r"(value\.)?json\.(encode|map-null-key)\..+|(value\.)?json\.decode\.json-parser\..+": (
        "how Flink reads and writes JSON; no value is changed here"
    ),
}
_SOURCE_ASKED = {
    r"scan\.bounded\..+": "where it ends: penstock run --until-caught-up ends at what is there",
    r"(key\.|value\.fields-include).*": "a key lands as bytes: source_columns, records.key_format",
    r"(value\.)?json\.(ignore-parse-errors|fail-on-missing-field)": (
        "here a record that does not fit is kept in the quarantine; a missing field is null"
    ),
    r"(value\.)?json\.timestamp-format\.standard": "how times are written: schema.hints, transform",
    r"scan\.watermark\..+": "rows land in no order of time",
}
_REGISTRY = re.compile(r"(value\.)?avro-confluent\.(?P<name>.+)")
_REGISTERED = {"url": "url", "schema-registry.url": "url"}
_SINK_LEFT = re.compile(
    r"write-parallelism|distribution-mode|range-distribution-.+|uid-suffix|write-format=parquet"
    r"|(write\.)?upsert[.-]enabled=false|overwrite-enabled=false|shred-variants.*"
)
_SINK_ASKED = re.compile(
    r"(write\.)?upsert[.-]enabled|overwrite-enabled|write-format|branch|snapshot-property\..+"
)
_PROPERTY = re.compile(r"(write|read|history|commit|gc|delta|compatibility)\..+|format-version")
_SINK_SIZES = re.compile(r"target-file-size-bytes|compression-.+|toBranch", re.IGNORECASE)


def of_job(found: Migrated, key: str, value: str) -> None:
    """Account for an option that SET tells."""
    why = _matching(_JOB, key)
    if why:
        found.leave(key, why)
    else:
        found.ask(key, value)


def of_statement(found: Migrated, told: str) -> None:
    """Account for a statement that is not read, by its beginning."""
    if _STATEMENTS.match(told):
        found.leave(told, "it changes no record")
    else:
        found.ask(told, decide="it is not read: does it change which records land, or how?")


def of_source(found: Migrated, key: str, value: str) -> None:
    """Account for an option of a table of connector kafka."""
    plain = value.strip().lower()
    why = _matching(_SOURCE_LEFT, key) or _matching(_SOURCE_LEFT, f"{key}={plain}")
    if why:
        found.leave(key, why)
    elif decide := _matching(_SOURCE_ASKED, key):
        found.ask(key, value, decide)
    else:
        found.ask(key, value)


def registry_option(found: Migrated, key: str, value: str) -> bool:
    """Take the schema registry's address; tell whether the option is of a registry at all."""
    option = _REGISTRY.fullmatch(key)
    if option is None:
        return False
    if option["name"] in _REGISTERED and "@" not in value:
        found.put(key, "records.registry.url", value)
    else:
        found.ask(key, value, "how the registry is asked: records.registry")
    return True


def of_sink(found: Migrated, rule: dict[str, Any], key: str, value: str) -> None:
    """Account for an option of a sink: what is no matter of Flink is a property of its table."""
    told = f"{key}={value.strip().lower()}"
    if _SINK_LEFT.fullmatch(key) or _SINK_LEFT.fullmatch(told):
        found.leave(key, "as here, or how Flink runs")
    elif _SINK_ASKED.fullmatch(key):
        found.ask(key, value, "rows are appended to Parquet files; tables[].branch tells a branch")
    elif _SINK_SIZES.fullmatch(key) or is_secret_name(key):
        found.ask(key, value, "target_file_bytes and tables[].properties of the spec")
    elif not _PROPERTY.fullmatch(key):
        found.ask(key, value)
    else:
        rule.setdefault("properties", {})[key] = value
        found.mapped.append((key, "tables[].properties"))


def _matching(whys: dict[str, str], text: str) -> str:
    return next((why for pattern, why in whys.items() if re.fullmatch(pattern, text)), "")
