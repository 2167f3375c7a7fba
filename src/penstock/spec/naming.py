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
    """Return the error of a name that no table has: P185, with the table that may be meant."""
    return _no("table", name, tables, "P185", "topic" if name in topics else "")


def no_topic(name: str, topics: Collection[str], tables: Collection[str] = ()) -> InvalidError:
    """Return the error of a name that no topic has: P161, with the topic that may be meant."""
    return _no("topic", name, topics, "P161", "table" if name in tables else "")


def _no(kind: str, name: str, known: Collection[str], code: str, other: str) -> InvalidError:
    near = nearest(name, known)
    ours = f"{kind}s of this pipeline are {listed(sorted(known))}"
    hint = f"did you mean {near}?" if near else ours
    said = f"is a {other}, and no {kind}" if other else f"is no {kind} of this pipeline"
    return InvalidError(f"{shown(name)} {said}", code=code, hint=hint)
