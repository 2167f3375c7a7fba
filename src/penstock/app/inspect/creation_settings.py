"""Settings of a rule that count only when its table is created, for a table that exists.

Invariant: a hint is named only where the column has another type: hints also declare columns that
are added later, and the fields that `where` and `route` read.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.landing.settings import TableTarget
from penstock.ports.tables import TableState

IgnoredHint = tuple[str, str, str]
"""The name of a column, the type of its hint, and the type that it has."""


def creation_only(target: TableTarget, state: TableState) -> tuple[str, ...]:
    """Return the settings that change nothing any more, by their names in the spec.

    Whether the table was created with the same partitioning, order and properties is not known.
    """
    by_keys = target.options.keys  # they are the identifier fields by themselves
    identifies = {*target.identifier_fields} - {*state.identifiers, *by_keys}
    given = {
        "schema.hints": ignored_hints(target, state),
        "partition_by": target.partition_by,
        "sort_by": target.sort_by,
        "identifier_fields": identifies,
        "properties": target.properties,
    }
    return tuple(name for name, value in given.items() if value)


def ignored_hints(target: TableTarget, state: TableState) -> tuple[IgnoredHint, ...]:
    """Return the hints of columns that are there with another type."""
    there = {each.name: each.type for each in state.schema.fields}
    return tuple(
        (name, str(hint), str(there[name]))
        for name, hint in target.hints.items()
        if there.get(name, hint) != hint
    )


def without_effect(names: Sequence[str]) -> str:
    """Return a sentence about such settings; there is at least one."""
    verb = "applies" if len(names) == 1 else "apply"
    return f"{', '.join(names)}: {verb} only when a table is created, and this one exists"
