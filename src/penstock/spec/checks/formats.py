"""What must agree between a rule and the format of the table it leads to.

Invariant: a setting that the format has no place for is refused, never left out in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.core.schema import Fixed, Kind
from penstock.core.schema_walk import leaves
from penstock.spec.language.notation import MAIN, partition_field
from penstock.spec.problems import KeyPath, Problem, listed, shown
from penstock.spec.settings.catalogs import Catalog
from penstock.spec.settings.records import Records
from penstock.spec.settings.table import Table

_WITHOUT = {"delta": "Delta"}
"""Formats without branches, identifier fields and sort orders, by the catalog's type."""

_NOT_IN_DELTA: Mapping[object, str] = {
    Kind.UUID: "string",
    Kind.TIME: "string or long",
    Kind.TIMESTAMP_NS: "timestamp",
    Kind.TIMESTAMPTZ_NS: "timestamptz",
    Fixed: "binary",
}
_INSTANTS = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIMESTAMP_NS, Kind.TIMESTAMPTZ_NS)
_OF_TIMES: Mapping[str, tuple[Kind, ...]] = {
    **dict.fromkeys(("year", "month", "day"), (Kind.DATE, *_INSTANTS)),
    "hour": _INSTANTS,
}
_ONE_FIELD = frozenset({"text", "bytes"})
_NAMED = "name the hint 'value', or remove it"


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
    if table.schema_.create and catalog is not None:
        yield from _of_delta(at, table) if format_ else _times(at, table)
    for name in (name for name, is_given in given.items() if is_given and format_):
        fact = f"a {format_} table has no {name.partition('_')[0]} to set"
        hint = "remove it, or land into an Iceberg catalog"
        yield Problem((*at, name), "P155", fact, hint, on_key=True)
    if table.write.distribution == "late" and (format_ or table.is_keyed):
        fact = f"no rows can land late in a {format_ or 'keyed'} table"
        hint = "remove it: each task writes a file for each partition then"
        yield Problem((*at, "write", "distribution"), "P869", fact, hint)
    if table.write.distribution == "hash" and table.is_keyed:
        fact = "no rows are exchanged by partition for a keyed table"
        hint = "remove it: the changes of a key meet by themselves"
        yield Problem((*at, "write", "distribution"), "P867", fact, hint)
    if table.write.sort == "at_write" and format_:
        fact = f"a {format_} table has no sort order to sort by"
        hint = "remove it, or land into an Iceberg catalog"
        yield Problem((*at, "write", "sort"), "P155", fact, hint)
    if given["branch"] and table.route:
        fact = "a route writes to the main branches of its tables"
        hint = "remove it, or write a rule with a fixed table"
        yield Problem((*at, "branch"), "P155", fact, hint, on_key=True)


def is_of_iceberg(catalog: Catalog) -> bool:
    """Return whether tables of a catalog have identifier fields, branches and tags."""
    return catalog.type not in _WITHOUT


def check_hints(at: KeyPath, table: Table, records: Records) -> Iterator[Problem]:
    """Find hints that match no field, whatever records hold: another hint or the format says so.

    A hint within another one never counts: what is declared as a whole wins (core/schema.py).
    """
    hints = table.schema_.hints
    for name in hints:
        path = (*at, "schema", "hints", name)
        above = (each for each in hints if name.startswith((each + ".", each + "[]", each + "{}")))
        whole = next(above, None)
        if whole is not None:
            fact = f"{shown(name)} matches no field: {shown(whole)} is declared as a whole"
            hint = f"write it within {whole}, such as  struct<…>, or remove one of the two"
            yield Problem(path, "P153", fact, hint, on_key=True)
        elif records.format in _ONE_FIELD and not (
            name == "value" or name.startswith("_kafka_key") or name in table.header_columns
        ):
            fact = f"{shown(name)} matches no field: records of format {records.format} have"
            yield Problem(path, "P153", f"{fact} the field 'value' alone", _NAMED, on_key=True)


def _of_delta(at: KeyPath, table: Table) -> Iterator[Problem]:
    for number, text in enumerate(table.partition_by):
        if "(" in text:
            column = partition_field(text).column
            fact = f"a Delta table is partitioned by columns alone, and not by {text}"
            hint = f"partition by a column, as one of transform.columns made of {column}"
            yield Problem((*at, "partition_by", number), "P434", fact, hint)
    for name, type_ in table.schema_.hint_types().items():
        for leaf in leaves(type_):
            instead = _NOT_IN_DELTA.get(type(leaf) if isinstance(leaf, Fixed) else leaf)
            if instead is not None:
                fact = f"a Delta table cannot hold {leaf}, the type of {shown(name)}"
                hint = f"write {instead}, or land into an Iceberg catalog"
                yield Problem((*at, "schema", "hints", name), "P435", fact, hint)
                break


def _times(at: KeyPath, table: Table) -> Iterator[Problem]:
    hints = table.schema_.hint_types()
    for number, text in enumerate(table.partition_by):
        field = partition_field(text)
        type_, wanted = hints.get(field.column), _OF_TIMES.get(field.transform)
        if type_ is not None and wanted is not None and type_ not in wanted:
            fact = f"{text} needs a time, and {shown(field.column)} is declared as {type_}"
            hint = f"declare it as {listed(map(str, wanted))} under schema.hints"
            yield Problem((*at, "partition_by", number), "P434", fact, hint)
