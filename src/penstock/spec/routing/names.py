"""Names that people type: which tables a spec may lead to, and what is said to a name of none."""

from __future__ import annotations

import re
from collections.abc import Collection

from penstock.core.errors import InvalidError
from penstock.spec.language.notation import PLACEHOLDER
from penstock.spec.model import Pipeline
from penstock.spec.problems import listed, nearest, shown


def leads_to(into: str, table: str) -> bool:
    """Return whether a name with placeholders may become a table's name."""
    parts = PLACEHOLDER.split(into)
    patterns = ("[a-z0-9_]+" if n % 2 else re.escape(part) for n, part in enumerate(parts))
    return re.fullmatch("".join(patterns), table) is not None


def is_led_to(pipeline: Pipeline, table: str) -> bool:
    """Return whether a rule of the spec may lead to a table, or is a route of this name."""
    return any(is_led_by(each.table, table) for each in pipeline.tables)


def promised_seconds(pipeline: Pipeline, table: str) -> float | None:
    """Return how old what is in a table may be, by the first rule that leads to it."""
    rules = (each for each in pipeline.tables if is_led_by(each.table, table))
    return next((each.freshness_seconds for each in rules), None)


def is_led_by(into: str, table: str) -> bool:
    """Return whether a rule's name is that of a table, or may become it."""
    return into == table or leads_to(into, table)


def no_table(name: str, tables: Collection[str], topics: Collection[str] = ()) -> InvalidError:
    """Return the error of a name that no table has: P185, with the table that may be meant."""
    near, ours = nearest(name, tables), listed(sorted(tables))
    hint = f"did you mean {near}?" if near else f"tables of this pipeline are {ours}"
    if name in topics:
        return InvalidError(f"{shown(name)} is a topic, not a table", code="P185", hint=hint)
    return InvalidError(f"{shown(name)} is not a table of this pipeline", code="P185", hint=hint)


def no_topic(name: str, topics: Collection[str], tables: Collection[str] = ()) -> InvalidError:
    """Return the error of a name that no topic has: P161, with the topic that may be meant."""
    near, ours = nearest(name, topics), listed(sorted(topics))
    hint = f"did you mean {near}?" if near else f"topics of this pipeline are {ours}"
    if name in tables:
        return InvalidError(f"{shown(name)} is a table, not a topic", code="P161", hint=hint)
    return InvalidError(f"{shown(name)} is not a topic of this pipeline", code="P161", hint=hint)
