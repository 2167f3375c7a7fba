"""What decides on a record, as canonical text: hashed into every ledger, kept, and put back.

A changed spec takes effect only where all tables are level (protocol.md 2): trailing tables are
first brought level under the rules they were fed with, in the surroundings of today.

Invariants:
- rules hold no secret, no path, no interval: a pipeline that only moves has the same rules;
- `with_rules(p, rules_text(p))` has the rules of `p`, and its surroundings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from penstock.core.errors import InvalidError
from penstock.spec.model import Pipeline
from penstock.spec.problems import SpecError, listed
from penstock.spec.settings.records import Records
from penstock.spec.settings.schema_policy import SchemaPolicy
from penstock.spec.settings.sections import DEPTH_MAX, Kafka, LimitSettings, QuarantineSettings
from penstock.spec.settings.table import Table

RULES_VERSION = 1

_TABLE = (
    "from",
    "into",
    "continue",
    "mode",
    "partition_by",
    "schema",
    "source_columns",
    "tombstones",
)
_TABLE_WHEN_GIVEN = (
    "where",
    "route",
    "unknown_tables",
    "change_columns",
    "header_columns",
    "records",
    "branch",
    "identifier_fields",
    "sort_by",
    "transform",
    "keys",
    "operation",
    "deletes",
    "soft",
    "truncates",
    "sequence_by",
)
_LIMITS = ("record_bytes", "columns", "depth")


def rules_text(pipeline: Pipeline) -> str:
    """Write the rules as canonical JSON: equal rules give equal text."""
    limits = {name: getattr(pipeline.limits, name) for name in _LIMITS}
    rules = {
        "v": RULES_VERSION,
        "topics": pipeline.kafka.revealed()["topics"],
        "records": _records(pipeline.records),
        "tables": [_table(table, pipeline.records) for table in pipeline.tables],
        "quarantine": pipeline.quarantine.into,
        "limits": {**limits, "record_bytes": f"{limits['record_bytes']}B"},
        **({"shards": pipeline.shards} if pipeline.shards > 1 else {}),
    }
    return json.dumps(rules, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def rules_hash(pipeline: Pipeline) -> str:
    """Identify the rules: the first 16 hexadecimal digits of their SHA-256."""
    return hashlib.sha256(rules_text(pipeline).encode()).hexdigest()[:16]


def with_rules(pipeline: Pipeline, text: str) -> Pipeline:
    """Return the pipeline with rules kept before, in its present surroundings.

    Properties of a rule, and how it writes files, are those of the present rule for the same table.
    Raises InvalidError when the text is not rules of a version known here, or when it names a
    catalog that the spec no longer has.
    """
    rules = _parsed(text)
    try:
        kept = _kept(pipeline, rules)
    except (KeyError, TypeError, AttributeError, SpecError) as error:
        raise _damaged() from error
    for into in [*(table.into for table in kept.tables), kept.quarantine.into]:
        catalog = into.partition(".")[0]
        if catalog not in pipeline.catalogs:
            raise InvalidError(
                f"tables must catch up under earlier rules, which land in {into}, and the"
                f" spec has no catalog '{catalog}' (known are {listed(pipeline.catalogs)})",
                code="P117",
                hint=f"put the catalog '{catalog}' back until all tables are level",
            )
    return kept


def _table(table: Table, shared: Records) -> dict[str, Any]:
    data = {**table.revealed(), "tombstones": table.tombstones_by(shared)}
    if table.schema_.defaults is None:
        del data["schema"]["defaults"]
    if table.schema_.match == SchemaPolicy.model_fields["match"].default:
        del data["schema"]["match"]  # rules of before it was a setting are the same
    if table.records is not None:
        data["records"] = _records(table.records)
    given = {
        name: data[name]
        for name in _TABLE_WHEN_GIVEN
        if getattr(table, name) != Table.model_fields[name].get_default(call_default_factory=True)
    }
    return {**{name: data[name] for name in _TABLE}, **given}


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        rules = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged() from error
    if not isinstance(rules, dict) or type(rules.get("v")) is not int:
        raise _damaged()
    if rules["v"] > RULES_VERSION:
        raise InvalidError(
            f"these rules have version {rules['v']}, and this penstock reads up to {RULES_VERSION}",
            code="P130",
            hint="use the newer penstock that wrote them, or upgrade this one",
        )
    return rules


def _kept(pipeline: Pipeline, rules: Mapping[str, Any]) -> Pipeline:
    present = {table.table: table for table in pipeline.tables}
    shared, tables = Records(**rules["records"]), []
    for data in rules["tables"]:
        table = _read_table(data, shared)
        today = present.get(table.table, table)
        surroundings = {
            "properties": today.properties,
            "across_partitions": today.across_partitions,
            "row_deletes": today.row_deletes,
            "rewrite_bytes_max": today.rewrite_bytes_max,
            "write": today.write,
            "records": _at_registry(table.records, today.records),
        }
        tables.append(table.model_copy(update=surroundings))
    topics = Kafka(brokers="localhost", topics=rules["topics"]).topics
    depth = min(rules["limits"]["depth"], DEPTH_MAX)  # earlier versions took more
    limits = LimitSettings(**{name: rules["limits"][name] for name in _LIMITS} | {"depth": depth})
    into = QuarantineSettings(into=rules["quarantine"]).into
    return pipeline.model_copy(
        update={
            "kafka": pipeline.kafka.model_copy(update={"topics": topics}),
            "records": _at_registry(shared, pipeline.records),
            "tables": tuple(tables),
            "quarantine": pipeline.quarantine.model_copy(update={"into": into}),
            "limits": pipeline.limits.model_copy(
                update={name: getattr(limits, name) for name in _LIMITS}
            ),
            "shards": rules.get("shards", 1),
        }
    )


def _read_table(data: Mapping[str, Any], shared: Records) -> Table:
    """Build a rule of its text, which says what a default came to."""
    given = {name: data[name] for name in _TABLE_WHEN_GIVEN if name in data}
    table = Table(**{name: data[name] for name in _TABLE}, **given)
    default = table.model_copy(update={"tombstones": None})
    same = default.tombstones_by(shared) == table.tombstones
    return default if same else table


def _records(records: Records) -> dict[str, Any]:
    """Return what values are, as far as it differs from the default; a registry may be moved."""
    data = records.model_dump(mode="json", exclude_defaults=True, exclude={"registry"})
    return {"envelope": "none", "format": "json", "registry": None, **data}


def _at_registry(kept: Records | None, today: Records | None) -> Records | None:
    if kept is None or today is None:
        return kept
    return kept.model_copy(update={"registry": today.registry})


def _damaged() -> InvalidError:
    return InvalidError(
        "this is not the text of rules of Penstock",
        code="P131",
        hint="it was edited or damaged by others; restore the pending store from a backup",
    )
