"""Names that people type: which tables a spec may lead to, and what is said to a name of none."""

from __future__ import annotations

import re
from collections.abc import Collection

from penstock.core.errors import InvalidError
from penstock.spec.model import Pipeline
from penstock.spec.notation import PLACEHOLDER
from penstock.spec.problems import listed, nearest, shown


def leads_to(into: str, table: str) -> bool:
    """Tell whether a name with placeholders may become a table's name."""
    parts = PLACEHOLDER.split(into)
    told = ("[a-z0-9_]+" if n % 2 else re.escape(part) for n, part in enumerate(parts))
    return re.fullmatch("".join(told), table) is not None


def is_led_to(pipeline: Pipeline, table: str) -> bool:
    """Tell whether a rule of the spec may lead to a table, or is a route of this name."""
    return any(table == each.table or leads_to(each.table, table) for each in pipeline.tables)


def no_table(name: str, tables: Collection[str], topics: Collection[str] = ()) -> InvalidError:
    """Say that no table has this name, and which one may be meant."""
    near = nearest(name, tables)
    if near:
        hint = f"did you mean {near}?"
    else:
        hint = f"tables of this pipeline are {listed(sorted(tables))}"
    if name in topics:
        return InvalidError(f"{shown(name)} is a topic, and no table", code="P185", hint=hint)
    return InvalidError(f"{shown(name)} is no table of this pipeline", code="P185", hint=hint)


def no_topic(name: str, topics: Collection[str], tables: Collection[str] = ()) -> InvalidError:
    """Say that no topic of this name is read, and which one may be meant."""
    near = nearest(name, topics)
    if near:
        hint = f"did you mean {near}?"
    else:
        hint = f"topics of this pipeline are {listed(sorted(topics))}"
    if name in tables:
        return InvalidError(f"{shown(name)} is a table, and no topic", code="P161", hint=hint)
    return InvalidError(f"{shown(name)} is no topic of this pipeline", code="P161", hint=hint)
