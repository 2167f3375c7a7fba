"""How the Iceberg sink of Kafka Connect replaces and deletes rows: rules of keyed tables.

Invariant: where it is not known what the sink does to a row, it is undecided; a rule that lacks its
keys is refused (P194).

Source: Iceberg, "Kafka Connect", `cdc-field`, `upsert-mode-enabled`, `id-columns`, and the codes
that its transforms write; a record without a value is skipped there.
"""

from __future__ import annotations

from typing import Any

from penstock.app.init.migrate.account import Migrated, Options

CDC = "iceberg.tables.cdc-field"
UPSERT = "iceberg.tables.upsert-mode-enabled"
ID_COLUMNS = "id-columns"

_OF_ENVELOPES = ("_cdc.op", "__op", "__deleted")
_CODES = {
    "I": "insert",
    "U": "update",
    "D": "delete",
    "c": "insert",
    "r": "read",
    "u": "update",
    "d": "delete",
}


def changes(found: Migrated, options: Options) -> None:
    """Give rules their mode and keys, once tables, records and transforms are translated."""
    field, upserts = options.get(CDC, "").strip(), options.get(UPSERT, "").strip().lower() == "true"
    option, value = (CDC, field) if field else (UPSERT, "true")
    if not field and not upserts:
        return
    enveloped = "envelope" in found.spec.get("records", {})
    if "iceberg.tables" not in dict(found.mapped):
        found.ask(option, value, "a rule with keys leads to one table: tables[].into, mode, keys")
    elif enveloped and field in _OF_ENVELOPES:
        _give(found, {"mode": "cdc"})
        found.mapped.append((CDC, "tables[].mode"))
    elif enveloped:
        why = "an envelope says itself what becomes of a row: tables[].mode: cdc, and keys"
        found.ask(option, value, why)
    elif "." in field:
        why = "an operation is in a field of the record itself: tables[].operation"
        found.ask(option, value, why)
    elif field:
        operation = {"field": field, "map": dict(_CODES)}
        _give(found, {"mode": "cdc", "operation": operation, "tombstones": "skip"})
        found.mapped.append((CDC, "tables[].operation"))
    else:
        _give(found, {"mode": "upsert", "tombstones": "skip"})
    if upserts and UPSERT not in (each.option for each in found.undecided):
        found.mapped.append((UPSERT, "tables[].mode"))


def identifying(found: Migrated, option: str, _: str) -> None:
    """Account for columns that identify a row."""
    is_keyed = any("mode" in rule for rule in found.spec["tables"])
    found.mapped.append((option, "tables[].keys" if is_keyed else "tables[].identifier_fields"))


def _give(found: Migrated, settings: dict[str, Any]) -> None:
    for rule in found.spec["tables"]:
        rule.update(settings)
        if "identifier_fields" in rule:
            rule["keys"] = rule.pop("identifier_fields")
