"""Records of a topic that are published as rows: from the spec to how workers read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.app.assembly.kept_readers import kept_reader
from penstock.app.assembly.process import SystemClock
from penstock.app.assembly.schema_readers import schema_readers
from penstock.core.names import folded
from penstock.core.schema import Field, Kind, Struct
from penstock.core.type_text import parse_type
from penstock.ports.log import RangeReader
from penstock.ports.sources import Stretch
from penstock.publishing.settings import Publication
from penstock.publishing.topic_rows import (
    COORDINATES,
    DELETED,
    HEADERS,
    RecordRules,
    TopicRowReader,
    record_rules_from_data,
    record_rules_to_data,
)
from penstock.rows.convert.absent_fields import AbsentFields
from penstock.rows.decode.format_reader import VALUE_COLUMN
from penstock.rows.encode.rules import MessageRules
from penstock.spec.language.expressions import expression
from penstock.spec.publications import Publications
from penstock.spec.settings.publication import KEEP, PublicationRule
from penstock.spec.settings.records import REGISTERED, Records
from penstock.spec.settings.sources import TopicToPublish

RECORDS, REGISTRY, KEEPS_HEADERS = "records", "registry", "keeps_headers"
"""What the settings of a source say of its records, their registry, and of headers of rejects."""
_LOOK_SECONDS = 10.0
_KEY, _TIMESTAMP = "_kafka_key", "_kafka_timestamp"
_ONE_COLUMN = {"text": Kind.STRING, "bytes": Kind.BINARY}


def settings_of(spec: Publications, rule: PublicationRule, given: TopicToPublish) -> dict[str, Any]:
    """Return what a source says of its records; nothing where they are published as they are.

    References are unresolved: it is part of jobs.
    """
    if given.records is None:
        return {}
    registry = given.records.registry or spec.publishing.registry
    needed = registry is not None and given.records.format in REGISTERED
    return {
        RECORDS: record_rules_to_data(_rules(rule, given, given.records)),
        KEEPS_HEADERS: rule.rejects is not None,
        REGISTRY: registry.settings() if registry is not None and needed else None,
    }


def rules_hashed(rule: PublicationRule) -> dict[str, Any]:
    """Return what of a rule decides on the records that are read."""
    given = rule.from_
    if not isinstance(given, TopicToPublish) or given.records is None:
        return {}
    return {RECORDS: record_rules_to_data(_rules(rule, given, given.records))}


def columns_of(source: Mapping[str, Any]) -> pa.Schema | None:
    """Return the columns of rows; None where a source gives messages."""
    return record_rules_from_data(source[RECORDS]).columns if RECORDS in source else None


def kept_topic_rows(source: Mapping[str, Any]) -> TopicRowReader:
    """Return what reads records as rows in this thread; its connections are kept."""
    return topic_rows_by(kept_reader(json.dumps(source, sort_keys=True))(), source)


def topic_rows_by(reader: RangeReader, source: Mapping[str, Any]) -> TopicRowReader:
    """Return what reads records as rows by a reader. Raises InvalidError of a registry."""
    schemas, rules = schema_readers(source[REGISTRY]), record_rules_from_data(source[RECORDS])
    return TopicRowReader(reader, rules, schemas, source[KEEPS_HEADERS])


def absent_fields(publication: Publication, stretches: Sequence[Stretch]) -> AbsentFields:
    """Look which fields that a publication reads none of a few records has.

    Raises what reading records raises.
    """
    deadline = SystemClock().monotonic() + _LOOK_SECONDS
    return kept_topic_rows(publication.source).absent_fields(stretches, deadline=deadline)


def with_defaults(rules: MessageRules, rule: PublicationRule) -> MessageRules:
    """Return rules by which messages have of their records what the spec says nothing else of."""
    given = rule.from_
    assert isinstance(given, TopicToPublish), "a topic has records"
    assert given.records is not None, "they are read as rows"
    fields = _fields(given, given.records).names
    return replace(
        rules,
        key=rules.key or (_KEY,),
        key_is_object=rules.key_is_object and not rule.keeps_key,
        timestamp=rules.timestamp or _TIMESTAMP,
        columns=rules.columns or (*fields, *rules.computed),
        headers_of=HEADERS if rule.headers == KEEP else "",
        deleted=DELETED if _deletes(rule, given) else "",
        deleted_at=_TIMESTAMP if _is_untimed(rule, given) else "",
        keeps_partition=rule.keeps_key,
    )


def _rules(rule: PublicationRule, given: TopicToPublish, records: Records) -> RecordRules:
    deletes = _deletes(rule, given)
    options = {
        "format": records.format,
        "framing": records.framing,
        "schema_id": records.schema_id,
        "compression": records.compression,
        "tombstones": "skip" if given.tombstones == "skip" else "quarantine",
    }
    return RecordRules(_fields(given, records), _coordinates(rule, given), options, deletes)


def _fields(given: TopicToPublish, records: Records) -> Struct:
    if records.format in _ONE_COLUMN:
        return Struct((Field(VALUE_COLUMN, _ONE_COLUMN[records.format]),))
    return Struct(tuple(Field(name, parse_type(text)) for name, text in given.columns.items()))


def _deletes(rule: PublicationRule, given: TopicToPublish) -> bool:
    """Return whether a record without a value deletes its key in the target."""
    own_key = all(name in COORDINATES for name in rule.key_columns)
    return given.tombstones == "delete" or (given.tombstones is None and own_key)


def _is_untimed(rule: PublicationRule, given: TopicToPublish) -> bool:
    """Return whether a record without a value deletes its key, and has no time of the spec's."""
    return _deletes(rule, given) and rule.timestamp not in {None, _TIMESTAMP}


def _coordinates(rule: PublicationRule, given: TopicToPublish) -> tuple[str, ...]:
    """Return the coordinates that a rule names, in whatever case SQL does."""
    named = {folded(name) for text in rule.sql for name in expression(text).columns}
    named |= {*rule.key_columns, *rule.value.columns, rule.value.column or ""}
    named |= {rule.timestamp or _TIMESTAMP, _KEY if rule.keeps_key else ""}
    named |= {_TIMESTAMP} if _is_untimed(rule, given) else set()
    named |= {HEADERS} if rule.headers == KEEP else set()
    return tuple(name for name in COORDINATES if name in named)
