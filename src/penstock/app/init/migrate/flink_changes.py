"""How Flink replaces and deletes rows of an Iceberg table: rules of keyed tables.

Invariant: rows are replaced by a declared key alone; what replaces rows without one is undecided.

Source: Iceberg, "Flink Writes", UPSERT: a statement's option counts before the table's property;
Flink, "Debezium Format", "Upsert Kafka SQL Connector".
"""

from __future__ import annotations

import re
from typing import Any

from penstock.app.init.migrate.account import Migrated, Options
from penstock.app.init.migrate.flink_options import ENVELOPES, UPSERTS
from penstock.app.init.migrate.flink_script import Declared

_COLUMN = r"(?P<column>`[^`]+`|\w+)"
_KEY = re.compile(
    rf"(?:CONSTRAINT\s+\S+\s+)?PRIMARY\s+KEY\s*\((?P<several>[^()]*)\)"
    rf"|{_COLUMN}\s+[^']*\bPRIMARY\s+KEY\b",
    re.IGNORECASE,
)


def changes(
    found: Migrated, rule: dict[str, Any], sink: tuple[str, Declared], source: Options, to: Options
) -> list[str]:
    """Give a rule its mode and keys where the sink replaces rows; list what is accounted for.

    `sink` is the table's name and declaration; `source` and `to` are the options of both tables,
    those in hints included. The list has options and declarations of columns.
    """
    name, table = sink
    declared, key = primary_key(table)
    format_ = source.get("format", source.get("value.format", ""))
    enveloped, latest = format_ in ENVELOPES, source["connector"] == "upsert-kafka"
    upserts = next((to[each] for each in UPSERTS if each in to), "").lower() == "true"
    if (enveloped or latest) and not key:
        mode, what = ("cdc", format_) if enveloped else ("upsert", source["connector"])
        keyed = f"changes are applied to rows there: tables[].mode: {mode}, and keys"
        found.ask(f"INSERT INTO {name}: {what}", decide=f"{keyed}; else each is a row")
    if not key or not (enveloped or latest or upserts):
        return []
    rule["mode"], rule["keys"] = "cdc" if enveloped else "upsert", key
    if not enveloped and not latest:
        rule["tombstones"] = "skip"
    found.mapped.append((f"CREATE TABLE {name}: key", "tables[].keys"))
    options = [each for each in UPSERTS if upserts and to.get(each, "").lower() == "true"]
    found.mapped += [(each, "tables[].mode") for each in options]
    return [declared, *options]


def primary_key(table: Declared) -> tuple[str, list[str]]:
    """Return the declaration of a table's key, and its columns."""
    for declaration in table.columns:
        if each := _KEY.match(declaration):
            names = (each["several"] or each["column"]).split(",")
            return declaration, [name.strip().strip("`") for name in names]
    return "", []
