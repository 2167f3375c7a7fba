"""One topic's rule, drafted from a sample of its records and tried on it.

Invariants:
- what a rule does with the sample is asked of the workers' own code: what it rejects is reported;
- a rule whose table would be parked (`quarantine.stop_above`) is not offered: `excluded` says why;
- a rule keeps as strict as the sample lets it: values are rescued only where some do not fit, and
  always there, for the table may be created for other records than it is tried on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.app.assembly import assembly
from penstock.app.assembly.schema_readers import schema_readers
from penstock.app.init.topics import Topic
from penstock.core.accounting import Tally, too_many_rejects
from penstock.core.key_columns import compares_exactly
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Kind, Schema, Struct
from penstock.core.schema_join import is_known, known
from penstock.core.schema_walk import walk
from penstock.landing.settings import TableTarget
from penstock.rows.arrow_arrays import validity_of
from penstock.rows.convert.batch import convert_batch
from penstock.rows.decode.decoder import decode_values
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.reject_codes import CODE_INFO, RejectCode, RejectError, Stage
from penstock.rows.schema.format_detection import DetectedFormat, Find, detect_format
from penstock.rows.schema.hints import Format, Hint, hints_for
from penstock.rows.schema.survey import survey
from penstock.spec.language.expressions import expression, place
from penstock.spec.language.notation import MalformedError
from penstock.spec.model import Pipeline
from penstock.spec.settings.sections import LimitSettings

UNPACKED_RECORDS_MAX = 100
"""How many compressed records are sampled: each may be as large as `limits.record_bytes`."""
NO_RECORDS = "no record to sample"
RESCUED_VALUES = "values that do not fit their column are kept in _rescued"
WITHOUT_COLUMNS = "its records give a table no column (P371)"
CATALOGS: Mapping[Format, Mapping[str, str]] = {
    "iceberg": {"type": "sql", "uri": "sqlite:///./lake/catalog.db", "warehouse": "./lake"},
    "delta": {"type": "delta", "root": "./delta"},
}
_MICROSECONDS = {"seconds": 1_000_000, "milliseconds": 1000, "microseconds": 1}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
KEY_DEPTH_MAX = 4
_FRAMED = ("avro", "protobuf", "json-schema-envelope")


@dataclass(frozen=True, slots=True)
class Rule:
    """What a rule says of one topic, and what is reported of it.

    `settings` are the rule's but for `from`, `into` and the hints; `why` says by setting why it is
    there. `sampled` counts the records that were read, `rejected` those that do not fit, by code.
    `keys` are the columns that change events have as their message keys, none where those do not
    say; None where records are no change events. `excluded` says why the topic cannot land.
    """

    topic: str
    partitions: int
    records: int
    sampled: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, Hint] = field(default_factory=dict)
    times: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    keys: tuple[str, ...] | None = None
    excluded: str = ""

    @property
    def deletes_by_key(self) -> bool:
        """Return whether a record without a value may delete a row, and is skipped as drafted."""
        envelope = self.settings.get("records", {}).get("envelope")
        return envelope == "flattened" and "tombstones" in self.settings

    @property
    def is_empty(self) -> bool:
        """Return whether there was no record to sample."""
        return self.excluded == NO_RECORDS


@dataclass(frozen=True, slots=True)
class Setting:
    """What rules are drafted for: a format of tables, and a registry where one was named."""

    to: Format
    registry: str | None
    find: Find | None


def drafted(topic: Topic, setting: Setting) -> Rule:
    """Draft the rule of one topic. Raises what `Registry.find` raises."""
    rule = Rule(topic.name, topic.partitions, topic.records)
    batch = topic.batch
    if topic.failure:
        return replace(rule, excluded=topic.failure)
    if batch is None or batch.column("value").null_count == len(batch):
        return replace(rule, excluded=NO_RECORDS)
    values = [value for value in batch.column("value").to_pylist() if value is not None]
    found = detect_format(values, setting.find)
    if found.unsupported:
        return replace(rule, sampled=len(batch), excluded=found.unsupported)
    if found.compression != "none":
        batch = batch.slice(0, UNPACKED_RECORDS_MAX)
    rule = replace(rule, sampled=len(batch))
    rule = _hinted(_begun(rule, found, batch), found, batch, setting)
    if found.envelope != "none":
        rule = _keyed(rule, found, _keys_of(batch, _shown(batch, _target(rule, setting))))
    return _tried(rule, batch, setting)


def _begun(rule: Rule, found: DetectedFormat, batch: pa.RecordBatch) -> Rule:
    settings: dict[str, Any] = {"records": found.settings} if found.settings else {}
    why: dict[str, str] = {}
    if batch.column("value").null_count:
        why["tombstones"] = "some records have no value"
        if found.envelope == "none":
            why["tombstones"] += "; with  mode: upsert  write delete, or they delete no row"
    elif found.envelope == "debezium":
        why["tombstones"] = "a delete may be followed by a record without a value"
    if why:
        settings["tombstones"] = "skip"
    settings["schema"] = {"create": True}
    if found.format not in ("text", "bytes"):
        settings["schema"]["columns"] = "evolve"
        why["columns"] = "a field that comes later gets a column"
    return replace(rule, settings=settings, why=why)


def _hinted(rule: Rule, found: DetectedFormat, batch: pa.RecordBatch, setting: Setting) -> Rule:
    if found.format in ("text", "bytes"):
        return rule
    target = _target(rule, setting)
    records = _records(batch, target)
    hinted = hints_for(records, setting.to)
    if hinted.keyed and found == DetectedFormat():
        return _as_text(rule)
    if hinted.mixed:
        rule = _rescuing(rule, {"types": RESCUED_VALUES})
    hints = dict(hinted.hints)
    if setting.to == "delta":
        hints |= _unheld(_shown(batch, target), as_count=found.format in _FRAMED)
    return replace(rule, hints=hints, times=_times(hinted.counts))


def _keyed(rule: Rule, found: DetectedFormat, keys: tuple[str, ...]) -> Rule:
    """Note the keys; a flattened delete may have a message key alone, which is read then."""
    if not keys or found.envelope != "flattened":
        return replace(rule, keys=keys)
    records = {**rule.settings["records"], "key_format": "json"}
    return replace(rule, keys=keys, settings={**rule.settings, "records": records})


def _keys_of(batch: pa.RecordBatch, columns: Schema) -> tuple[str, ...]:
    """Return the fields of the message keys, where all have the same and each can be of a key."""
    names: set[tuple[str, ...]] = set()
    for value in batch.column("key").drop_null().to_pylist():
        try:
            key = parse_object(value, depth_max=KEY_DEPTH_MAX)
        except RejectError:
            return ()
        inner = key.get("payload") if key.keys() == {"schema", "payload"} else key
        names.add(tuple(inner) if isinstance(inner, dict) else ())
    (found,) = names if len(names) == 1 else ((),)
    fields = [columns.field(name) for name in found]
    usable = all(each is not None and compares_exactly(each.type) for each in fields)
    return found if usable and all(map(_PLAIN.fullmatch, found)) else ()


def _as_text(rule: Rule) -> Rule:
    """Land records whose own keys are data as text: each key would become a column."""
    settings = {**rule.settings, "records": {"format": "text"}, "schema": {"create": True}}
    why = {name: text for name, text in rule.why.items() if name != "columns"}
    why["records"] = (
        "JSON whose keys change from record to record: as columns there would be no end"
    )
    return replace(rule, settings=settings, why=why)


def _records(batch: pa.RecordBatch, target: TableTarget) -> list[dict[str, Any]]:
    options, readers = target.options, schema_readers(target.registry)
    at = np.flatnonzero(validity_of(batch.column("value")))
    found = []
    for group in decode_values(batch, at, options, readers, {}).groups:
        if group.reader is not None or is_known(group.type):
            continue
        for value in group.values.to_pylist():
            with suppress(RejectError):
                found.append(parse_object(value, depth_max=options.depth_max))
    return found


def _unheld(schema: Schema, *, as_count: bool) -> dict[str, Hint]:
    time = Kind.LONG if as_count else Kind.STRING
    instead = {
        Kind.UUID: Hint(Kind.STRING, "a UUID, which Delta has no type for"),
        Kind.TIME: Hint(time, "a time of day, which Delta has no type for"),
    }
    return {
        path: instead[each]
        for path, each in walk(schema)
        if isinstance(each, Kind) and each in instead
    }


def _times(counts: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for path, unit in counts.items():
        if _PLAIN.fullmatch(path):
            sql = f"make_timestamptz({place(path)} * {_MICROSECONDS[unit]})"
            with suppress(MalformedError):
                expression(sql)
                found[f"{path.replace('.', '_')}_time"] = sql
    return found


def _tried(rule: Rule, batch: pa.RecordBatch, setting: Setting) -> Rule:
    """Convert the sample; rescue what does not fit; report what is rejected all the same."""
    if not known(_shown(batch, _target(rule, setting))).fields:
        return replace(rule, excluded=WITHOUT_COLUMNS)
    while more := _rescues(rejected_codes := _rejects_of(rule, batch, setting), rule):
        rule = _rescuing(rule, more)
    rule = replace(rule, rejected=dict(rejected_codes.most_common()))
    scale = max(rule.records // max(rule.sampled, 1), 1)
    books = Tally(
        examined=rule.sampled * scale,
        landed=(rule.sampled - rejected_codes.total()) * scale,
        quarantined={code: count * scale for code, count in rejected_codes.items()},
    )
    if too_many_rejects(books, _pipeline(rule, setting).quarantine.stop_above_share):
        return replace(rule, excluded="more than quarantine.stop_above of its records do not fit")
    return rule


def _rescues(rejected_codes: Mapping[str, int], rule: Rule) -> dict[str, str]:
    schema = rule.settings["schema"]
    converting = {
        code for code in rejected_codes if CODE_INFO[RejectCode(code)].stage is Stage.CONVERT
    }
    more = {}
    if RejectCode.UNKNOWN_FIELD in converting and schema.get("columns") == "evolve":
        more["columns"] = "names that no column can have are kept in _rescued"
    if converting - {RejectCode.UNKNOWN_FIELD} and "types" not in schema and "columns" in schema:
        more["types"] = RESCUED_VALUES
    return more


def _rescuing(rule: Rule, why: Mapping[str, str]) -> Rule:
    schema = {**rule.settings["schema"], **dict.fromkeys(why, "rescue")}
    return replace(rule, settings={**rule.settings, "schema": schema}, why={**rule.why, **why})


def _rejects_of(rule: Rule, batch: pa.RecordBatch, setting: Setting) -> Counter[str]:
    target = _target(rule, setting)
    made = convert_batch(
        batch,
        at=TopicPartition("", 0, rule.topic),
        schema=target.schema_for(_shown(batch, target)),
        options=target.options,
        readers=schema_readers(target.registry),
    )
    return Counter(reject.code for reject in made.rejects)


def _shown(batch: pa.RecordBatch, target: TableTarget) -> Struct:
    readers = schema_readers(target.registry)
    return survey(batch, target.options, readers, columns_max=LimitSettings().columns)


def _target(rule: Rule, setting: Setting) -> TableTarget:
    ((target,),) = assembly.targets_of(_pipeline(rule, setting), [rule.topic]).values()
    return target


def _pipeline(rule: Rule, setting: Setting) -> Pipeline:
    schema = {**rule.settings["schema"], "hints": {n: str(h.type) for n, h in rule.hints.items()}}
    return pipeline_for(
        setting, rule.topic, {"from": rule.topic, **rule.settings, "schema": schema}
    )


def pipeline_for(
    setting: Setting, topics: Any, rule: Mapping[str, Any], brokers: str = "localhost"
) -> Pipeline:
    """Return a pipeline of one rule over `topics`, an entry of `kafka.topics`.

    Raises SpecError for brokers or a registry of no such address.
    """
    data: dict[str, Any] = {
        "name": "init",
        "kafka": {"brokers": brokers, "topics": [topics]},
        "records": {"registry": setting.registry} if setting.registry else {},
        "catalogs": {"c": CATALOGS[setting.to]},
        "tables": [{"into": "c.landed.t", **rule}],
        "quarantine": {"into": "c.ops.quarantine"},
    }
    return Pipeline(**data)  # which reports wrong settings as for a spec
