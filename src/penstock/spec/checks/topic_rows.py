"""What must agree where a publication reads the records of a topic as rows, or computes columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from penstock.core.names import folded
from penstock.core.schema import SOURCE_PREFIX, Field, Kind, Struct
from penstock.core.type_text import parse_type
from penstock.spec.checks.connections import check_records
from penstock.spec.language.expressions import KAFKA_COLUMNS, bound_type, expression, text_hint
from penstock.spec.language.notation import MalformedError
from penstock.spec.problems import KeyPath, Problem, listed, nearest, shown
from penstock.spec.settings.publication import KEEP, PublicationRule
from penstock.spec.settings.records import Records, RegistrySettings
from penstock.spec.settings.sources import SourceToPublish, TopicToPublish

_ONE_COLUMN = frozenset({"text", "bytes"})
"""Formats whose records have the column `value` alone."""
VALUE_COLUMN = "value"
OF_RECORDS = (*KAFKA_COLUMNS.names, f"{SOURCE_PREFIX}value")
"""What SQL and settings may name of a record, besides its fields."""


def check_topic_rows(
    place: KeyPath, rule: PublicationRule, shared: RegistrySettings | None
) -> Iterator[Problem]:
    """Find what does not agree; `shared` is the registry of those that name none."""
    given = rule.from_
    if isinstance(given, TopicToPublish):
        at = (*place, "from")
        if given.records is None:
            yield from _of_mirrors(at, given)
        else:
            registry = given.records.registry or shared
            yield from check_records(given.records, registry, (*at, "records"))
            yield from _of_records(at, given, given.records)
            yield from _tombstones(at, rule, given)
            yield from _named(place, rule, _read(given))
    if rule.headers == KEEP and not rule.reads_records and not rule.is_mirror:
        fact = "the rows of this source come without headers"
        hint = "name them:  headers: { name: column }"
        yield Problem((*place, "headers"), "P835", fact, hint)
    for name in rule.transform.columns if rule.transform else ():
        if name in _read(given):
            fact = f"{shown(name)} is read and computed"
            where = (*place, "transform", "columns", name)
            yield Problem(where, "P835", fact, "give what is computed another name", on_key=True)


def _read(given: SourceToPublish) -> Collection[str]:
    """Return the names of the columns that are read of a topic's records."""
    if not isinstance(given, TopicToPublish) or given.records is None:
        return ()
    return {VALUE_COLUMN} if given.records.format in _ONE_COLUMN else given.columns


def _named(place: KeyPath, rule: PublicationRule, read: Collection[str]) -> Iterator[Problem]:
    """Find columns that are named, and neither read, nor computed, nor those of a record."""
    computed = rule.transform.columns if rule.transform else {}
    before, after = (*read, *OF_RECORDS), (*read, *computed, *OF_RECORDS)
    headers = rule.headers if isinstance(rule.headers, Mapping) else {}
    yield from _in_sql((*place, "where"), rule.where, before, computed)
    yield from _no_condition((*place, "where"), rule)
    for name, sql in computed.items():
        yield from _in_sql((*place, "transform", "columns", name), sql, before, computed)
    yield from _in_sql((*place, "delete_when"), rule.delete_when, after)
    for name, sql in headers.items():
        yield from _in_sql((*place, "headers", name), sql, after)
    plain: list[tuple[KeyPath, str | None]] = [(("key",), each) for each in rule.key_columns]
    plain += [(("value", "columns"), each) for each in rule.value.columns]
    plain += [(("value", "column"), rule.value.column), (("timestamp",), rule.timestamp)]
    for at, column in plain:
        if column and column not in after:
            yield _no_column((*place, *at), column, after)


def _in_sql(
    at: KeyPath, sql: str | None, known: Collection[str], computed: Collection[str] = ()
) -> Iterator[Problem]:
    """Find columns that an expression names, and that are not known, in whatever case; those that
    are `computed` only behind it are told so.
    """
    there, later = {folded(each) for each in known}, {folded(each) for each in computed}
    for name in expression(sql).columns if sql and sql not in known else ():
        if folded(name) in there:
            continue
        problem = _no_column(at, name, known)
        if folded(name) in later:
            hint = "this sees records as they are read, and no computed column: write it out here"
            problem = replace(problem, hint=f"{hint};  there are {listed(known, most=20)}")
        elif hint := text_hint(sql or "", name):
            near = nearest(name, known)
            problem = replace(problem, hint=f"{hint};  or {near}?" if near else hint)
        yield problem


def _no_condition(at: KeyPath, rule: PublicationRule) -> Iterator[Problem]:
    """Find a `where` that is no condition, of what the types of columns tell."""
    given, sql = rule.from_, rule.where
    if not isinstance(given, TopicToPublish) or given.records is None or not sql:
        return
    types = {name: parse_type(each) for name, each in given.columns.items()}
    if given.records.format in _ONE_COLUMN:
        types = {VALUE_COLUMN: Kind.STRING if given.records.format == "text" else Kind.BINARY}
    types[OF_RECORDS[-1]] = Kind.BINARY
    fields = Struct(tuple(Field(name, each) for name, each in types.items()))
    with suppress(MalformedError):  # what does not compute at all is told where rows are
        kind = bound_type(expression(sql), fields)
        if kind not in {"BOOLEAN", '"NULL"'}:
            fact = f"where gives {kind}, and is a condition over one record: BOOLEAN is wanted"
            yield Problem(at, "P838", fact, "compare it, such as  amount > 0,  or cast it")


def _no_column(at: KeyPath, name: str, known: Collection[str]) -> Problem:
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else f"there are {listed(known, most=20)}"
    return Problem(at, "P838", f"the records have no column {shown(name)}", hint)


def _of_mirrors(at: KeyPath, given: TopicToPublish) -> Iterator[Problem]:
    for name in ("columns", "tombstones"):
        if name in given.model_fields_set:
            fact = f"{name}  is for records that are read as rows"
            hint = "add  records: { format: json },  or leave it out"
            yield Problem((*at, name), "P832", fact, hint, on_key=True)


def _of_records(at: KeyPath, given: TopicToPublish, records: Records) -> Iterator[Problem]:
    """Find settings of landing that publishing has no use for, and columns that do not fit."""
    for name, plain in (("key_format", "bytes"), ("envelope", "none")):
        if getattr(records, name) != plain:
            fact = f"{name}  is for landing: here keys stay as they are, and no envelope is opened"
            yield Problem((*at, "records", name), "P832", fact, "leave it out")
    has_own = records.format in _ONE_COLUMN
    if has_own and given.columns:
        fact = f"records of format {records.format} have the column  value  alone"
        yield Problem((*at, "columns"), "P832", fact, "leave it out", on_key=True)
    if not has_own and not given.columns:
        fact = f"format {records.format} needs  columns:  which fields are read, with their types"
        hint = "such as  columns: { id: long, status: string }"
        yield Problem((*at, "records"), "P832", fact, hint)
    for name in given.columns:
        if name.lower().startswith(SOURCE_PREFIX):
            fact = f"{shown(name)} is one of those that each record has of its own"
            hint = "leave it out, and name it where it is wanted"
            yield Problem((*at, "columns", name), "P832", fact, hint, on_key=True)


def _tombstones(at: KeyPath, rule: PublicationRule, given: TopicToPublish) -> Iterator[Problem]:
    """Find a record without a value that would delete, and has no key to do so."""
    of_value = [name for name in rule.key_columns if not name.startswith(SOURCE_PREFIX)]
    if given.tombstones == "delete" and of_value:
        fact = f"a record without a value has no {shown(of_value[0])}, and so no key to delete"
        hint = "tombstones: skip,  or  quarantine;  or leave  key  out"
        yield Problem((*at, "tombstones"), "P833", fact, hint)
