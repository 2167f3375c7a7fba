"""What a rule of a keyed table becomes for the rows, and for the table that is created."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.rows.options import KeyedOptions, Operation
from penstock.spec.checks.formats import is_of_iceberg
from penstock.spec.settings.catalogs import Catalog
from penstock.spec.settings.keyed import Meaning
from penstock.spec.settings.table import Table

_OPERATIONS: Mapping[Meaning, Operation] = {
    **dict.fromkeys(("insert", "update", "read"), "upsert"),
    "delete": "delete",
    "truncate": "truncate",
}
"""A snapshot or a record sent again makes "insert" unreliable: it puts a row as an update does."""


def keyed_options(rule: Table) -> KeyedOptions | None:
    """Return how records of a rule change rows; None where each is a row of its own."""
    if not rule.is_keyed:
        return None
    operation = rule.operation
    words = operation.map.items() if operation else ()
    return KeyedOptions(
        keys=tuple(rule.keys),
        operations={word: _OPERATIONS[meaning] for word, meaning in words},
        operation_field=operation.field if operation else None,
        operation_header=operation.header if operation else None,
        ignores_deletes=rule.deletes == "ignore",
        soft=rule.soft_columns,
        ignores_truncates=rule.truncates == "ignore",
        sequence=tuple(rule.sequence_by),
    )


def identifier_fields(rule: Table, catalog: Catalog) -> tuple[str, ...]:
    """Return the fields that a new table declares: the keys, where its format has such fields."""
    declared = rule.keys if is_of_iceberg(catalog) else ()
    return tuple(rule.identifier_fields or declared)
