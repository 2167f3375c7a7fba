"""Options of a Flink job, of its Kafka sources and of its sinks: what each becomes.

Invariant: an option is left only where it changes neither which records land nor what a row
holds; what is not known is undecided.

Source: Flink, "Configuration", "Apache Kafka SQL Connector", "JSON Format", "Confluent Avro
Format"; Iceberg, "Flink Configuration", write options.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.app.init.migrate.account import (
    NOT_NEEDED,
    Migrated,
    Rules,
    asked,
    elsewhere,
    to,
    with_setting,
)
from penstock.app.init.migrate.client_options import CLIENT, RESET
from penstock.spec.secrets import is_secret_name

OTHERWISE = "another source has another one, which holds for all: write a spec for each"
_FORMAT_ASKED = "another source has another one, which is in records: write tables[].records"
_FORMATS = {"json": "json", "raw": "bytes", "avro-confluent": "avro"}
ENVELOPES = {"debezium-json": "debezium", "maxwell-json": "maxwell", "canal-json": "canal"}
UPSERTS = ("upsert-enabled", "upsert.enabled", "write.upsert-enabled", "write.upsert.enabled")
"""Options that say whether rows are replaced; the first that is given counts."""
_SIZES = re.compile(r"target-file-size-bytes|compression-.+|toBranch", re.IGNORECASE)


def of_sink(found: Migrated, rule: dict[str, Any], key: str, value: str) -> None:
    """Account for an option of a sink: what is no matter of Flink is a property of its table."""
    if _SIZES.fullmatch(key) or is_secret_name(key):
        found.ask(key, value, "target_file_bytes and tables[].properties of the spec")
        return
    before = len(found.mapped)
    found.follow(_SINK, key, value)
    if len(found.mapped) > before:
        rule.setdefault("properties", {})[key] = value


def shared(found: Migrated, key: str, setting: str, value: str) -> None:
    """Put a setting that holds for all sources; where they differ it is the first one's."""
    block, _, name = setting.partition(".")
    if found.spec.get(block, {}).get(name, value) == value:
        found.put(key, setting, value)
    else:
        found.ask(key, value, OTHERWISE)


def _format(found: Migrated, key: str, value: str) -> None:
    """Put the format that holds for all sources; where they differ it is the first one's."""
    if value not in _FORMATS and value not in ENVELOPES:
        found.ask(key, value, "its records are not read: records.format")
        return
    setting, read_as = ("format", _FORMATS) if value in _FORMATS else ("envelope", ENVELOPES)
    records = found.spec.get("records", {})
    former = {name: records[name] for name in ("format", "envelope") if name in records}
    if former in ({}, {setting: read_as[value]}):
        found.put(key, f"records.{setting}", read_as[value])
    else:
        found.ask(key, value, _FORMAT_ASKED)


def _group(found: Migrated, key: str, value: str) -> None:
    if found.group in ("", value):
        found.leave(key, NOT_NEEDED)
    else:
        found.ask(key, value, OTHERWISE)
    found.group = found.group or value


def _registry_address(found: Migrated, key: str, value: str) -> None:
    (_REGISTRY_ASKED if "@" in value else to("records.registry.url"))(found, key, value)


_REGISTRY_ASKED = asked("how the registry is asked: records.registry")
JOB: Rules = {
    "execution.checkpointing.* state.* execution.savepoint.*": NOT_NEEDED,
    "restart-strategy* execution.runtime-mode execution.target execution.attached"
    " execution.shutdown*": "a supervisor restarts a run, which goes on from the tables' positions",
    "jobmanager.* taskmanager.* parallelism.* pipeline.* rest.* yarn.* kubernetes.* metrics.*"
    " cluster.* table.exec.resource.* table.exec.mini-batch.* table.exec.async-lookup.*"
    " table.optimizer.* sql-client.* table.dml-sync classloader.* env.* slotmanager.*": (
        "how Flink runs; see spark"
    ),
    "*": asked(),
}
"""Options that SET sets."""
SOURCE: Rules = {
    "topic topic-pattern connector scan.startup.*": elsewhere,
    "properties.bootstrap.servers": lambda found, key, value: shared(
        found, key, "kafka.brokers", value
    ),
    "format": _format,
    "properties.group.id group.id": _group,
    f"properties.{RESET} {RESET}": "with scan.startup.mode",
    "properties.*": lambda found, key, value: found.follow(
        CLIENT, key, value, key.removeprefix("properties.")
    ),
    "avro-confluent.url avro-confluent.schema-registry.url": _registry_address,
    "avro-confluent.*": _REGISTRY_ASKED,
    "scan.topic-partition-discovery.interval": "new partitions are found by themselves",
    "scan.parallelism sink.*": "how Flink runs",
    "scan.bounded.mode=unbounded json.timestamp-format.standard=iso-8601": "as here",
    "fields-include=all json.fail-on-missing-field=false json.ignore-parse-errors=false": "as here",
    "json.encode.* json.map-null-key.* json.decode.json-parser.*": (
        "how Flink reads and writes JSON; no value is changed here"
    ),
    "scan.bounded.*": asked("where it ends: penstock run --until-caught-up ends at what is there"),
    "key.* fields-include*": asked("a key lands as bytes: source_columns, records.key_format"),
    "json.ignore-parse-errors json.fail-on-missing-field": asked(
        "here a record that does not fit is kept in the quarantine; a missing field is null"
    ),
    "json.timestamp-format.standard": asked("how times are written: schema.hints, transform"),
    "scan.watermark.*": asked("rows land in no order of time"),
    "*": asked(),
}
"""Options of a table of connector kafka, by their names without `value.`."""
_SINK: Rules = {
    "write-parallelism distribution-mode range-distribution-* uid-suffix write-format=parquet"
    " overwrite-enabled=false shred-variants*": "as here, or how Flink runs",
    " ".join(f"{each}=false" for each in UPSERTS): "off, as here without  tables[].mode: upsert",
    " ".join(UPSERTS): asked("by which columns a row is replaced: tables[].mode: upsert, keys"),
    "overwrite-enabled write-format branch snapshot-property.*": asked(
        "rows are put into Parquet files; tables[].branch names a branch"
    ),
    "write.* read.* history.* commit.* gc.* delta.* compatibility.* format-version": with_setting(
        "tables[].properties"
    ),
    "*": asked(),
}
