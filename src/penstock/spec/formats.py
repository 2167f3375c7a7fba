"""What must agree between a rule and the format of the table it leads to.

Invariant: a setting that the format has no place for is refused, never left out in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.spec.notation import MAIN
from penstock.spec.problems import KeyPath, Problem

if TYPE_CHECKING:
    from penstock.spec.catalogs import Catalog
    from penstock.spec.model import Table

_WITHOUT = {"delta": "Delta"}
"""Formats without branches, identifier fields and sort orders, by the catalog's type."""


def check_format(
    at: KeyPath, table: Table, catalogs: Mapping[str, Catalog | None]
) -> Iterator[Problem]:
    """Find settings of one rule that its table cannot have."""
    given = {
        "branch": table.branch != MAIN,
        "identifier_fields": bool(table.identifier_fields),
        "sort_by": bool(table.sort_by),
    }
    catalog = catalogs.get(table.into.partition(".")[0])
    format_ = _WITHOUT.get(catalog.type) if catalog is not None else None
    for name in (name for name, is_given in given.items() if is_given and format_):
        fact = f"a {format_} table has no {name.partition('_')[0]} to set"
        hint = "remove it, or land into an Iceberg catalog"
        yield Problem((*at, name), "P155", fact, hint, on_key=True)
    if given["branch"] and table.route:
        fact = "a route leads to the main branches of its tables"
        hint = "remove it, or write a rule with a fixed table"
        yield Problem((*at, "branch"), "P155", fact, hint, on_key=True)
