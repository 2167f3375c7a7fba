"""What must agree around the expressions of a rule: fields, types, placeholders.

Invariants: every finding names the setting to change; nothing is computed, only bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.names import folded
from penstock.spec.language import notation
from penstock.spec.language.expressions import expression, fields_of, looked_at, require_type
from penstock.spec.language.notation import MalformedError
from penstock.spec.problems import KeyPath, Problem, listed
from penstock.spec.settings.table import Table, type_of

CONDITION = ("BOOLEAN",)
NAMES = ("VARCHAR", "INTEGER", "BIGINT", "BOOLEAN", "DATE")


def check_expressions(at: KeyPath, table: Table) -> Iterator[Problem]:
    """Find what does not agree in the expressions of one rule, at its place in the spec."""
    yield from _check_route(at, table)
    yield from _check_transform(at, table)
    texts: list[tuple[KeyPath, str, tuple[str, ...]]] = [
        (("route", name), text, NAMES) for name, text in table.route.items()
    ]
    if table.where is not None:
        texts.append((("where",), table.where, CONDITION))
    fields = fields_of(table.schema_.hint_types())
    for path, text, wanted in texts:
        try:
            found = expression(text)
            require_type(found, looked_at(found, fields), wanted)
        except MalformedError as error:
            yield Problem((*at, *path), error.code, error.message, error.hint)


def _check_route(at: KeyPath, table: Table) -> Iterator[Problem]:
    *above, last = table.into.split(".")
    elsewhere = set(notation.PLACEHOLDER.findall(".".join(above)))
    here = set(notation.PLACEHOLDER.findall(last))
    groups = notation.matcher(table.from_).groupindex
    for name in table.route:
        path = (*at, "route", name)
        if name in groups:
            fact = f"'from' has a group named '{name}' as well"
            yield Problem(path, "P114", fact, "give one of them another name", on_key=True)
        elif name in elsewhere:
            fact = f"{{{name}}} is before the table's own name, which only a topic may fill"
            yield Problem(path, "P114", fact, "route into the tables of one namespace", on_key=True)
        elif name not in here:
            fact = f"'into' has no {{{name}}}"
            hint = f"'into' has {listed(sorted(here))}" if here else f"write {{{name}}} in 'into'"
            yield Problem(path, "P114", fact, hint, on_key=True)
    if not table.route and table.unknown_tables != "quarantine":
        fact = "without route, no record asks for its own table"
        hint = "remove it; a fixed table is created with  schema: { create: true }"
        yield Problem((*at, "unknown_tables"), "P147", fact, hint)
    if table.unknown_tables == "create" and not table.source_columns:
        fact = "a table created for its first records needs a column that always exists"
        yield Problem((*at, "source_columns"), "P147", fact, "such as [offset]")


def _check_transform(at: KeyPath, table: Table) -> Iterator[Problem]:
    transform = table.transform
    if transform is None:
        return
    fields = fields_of(table.schema_.hint_types())
    named = {folded(name) for name in fields.names}
    for name, text in transform.columns.items():
        path = (*at, "transform", "columns", name)
        if folded(name) in named:
            fact = f"a field of the records is declared as '{name}' as well"
            hint = "give the computed column another name"
            yield Problem(path, "P148", fact, hint, on_key=True)
        try:
            type_of(text, fields)
        except MalformedError as error:
            yield Problem(path, error.code, error.message, error.hint)
    if transform.function is not None:
        twice = named | {folded(name) for name in transform.columns}
        for name in transform.function.columns:
            if folded(name) in twice:
                path = (*at, "transform", "function", "columns", name)
                fact = f"'{name}' is a declared field, or computed by an expression"
                yield Problem(path, "P148", fact, "keep one of them", on_key=True)
