"""What must agree across settings: catalogs and names, topics and rules, security, secrets.

Invariants: every check is pure and looks at a draft in which wrong blocks are left out (None), so
that one mistake does not hide the next; every finding names the setting to change.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.spec.checks.expressions import check_expressions
from penstock.spec.checks.formats import check_format, check_hints
from penstock.spec.checks.reach import is_remote, unreachable
from penstock.spec.checks.records import check_records
from penstock.spec.checks.security import check_security
from penstock.spec.language import notation
from penstock.spec.problems import KeyPath, Problem, listed, nearest, shown
from penstock.spec.secrets import is_literal, is_secret_name, without_password
from penstock.spec.settings import undecided
from penstock.spec.settings.fields import NOT_YET
from penstock.spec.settings.records import Records

if TYPE_CHECKING:
    from penstock.spec.settings.catalogs import Catalog
    from penstock.spec.settings.sections import (
        Kafka,
        PendingSettings,
        QuarantineSettings,
        SparkSettings,
    )
    from penstock.spec.settings.table import Table
    from penstock.spec.settings.undecided import Undecided

PARTS_MIN = {"delta": 2}  # of Iceberg, 3: a namespace is always there
OWN_PROPERTIES = "penstock."
OWN_COLUMNS = ("_kafka_", "_change_", "_rescued")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class Draft:
    """The blocks of a spec that are right in themselves; a wrong one is None.

    `catalogs` is None when no catalog can be told from its text.
    """

    kafka: Kafka | None
    catalogs: Mapping[str, Catalog | None] | None
    tables: Sequence[Table | None]
    quarantine: QuarantineSettings | None
    row_group_bytes: int | None
    target_file_bytes: int | None
    spark: SparkSettings | None = None
    pending: PendingSettings | None = None
    records: Records | None = None
    undecided: Sequence[Undecided] = ()


def check(draft: Draft) -> list[Problem]:
    """Find everything that does not agree, warnings included."""
    return [
        *undecided.problems_of(draft.undecided),
        *(check_security(draft.kafka.security) if draft.kafka else ()),
        *(_check_start(draft.kafka) if draft.kafka else ()),
        *_check_catalogs(draft),
        *_check_rules(draft),
        *_check_records(draft),
        *_check_topics(draft),
        *_check_same_tables(draft),
        *_check_readings(draft),
        *_check_sizes(draft),
        *_check_reach(draft),
        *_check_secrets(draft),
    ]


def _check_start(kafka: Kafka) -> Iterator[Problem]:
    if isinstance(kafka.start, Mapping):
        for topic in kafka.start:
            if not is_read(topic, kafka):
                near = nearest(topic, kafka.names)
                hint = f"did you mean {shown(near)}?" if near else "add it to kafka.topics"
                fact = f"the topic {shown(topic)} is not among kafka.topics"
                yield Problem(("kafka", "start", topic), "P121", fact, hint, on_key=True)
    if kafka.identity == "name":
        fact = "a re-created topic looks like the old one: its records may be skipped"
        hint = "leave it out where brokers give topic ids"
        yield Problem(("kafka", "identity"), "P126", fact, hint, "warning")


def _check_catalogs(draft: Draft) -> Iterator[Problem]:
    targets: list[tuple[KeyPath, str]] = [
        (("tables", index, "into"), table.into)
        for index, table in enumerate(draft.tables)
        if table is not None
    ]
    if draft.quarantine is not None:
        targets.append((("quarantine", "into"), draft.quarantine.into))
    for path, into in targets:
        name, *rest = into.split(".")
        if draft.catalogs is None:
            continue
        if name not in draft.catalogs:
            near = nearest(name, draft.catalogs)
            did_you_mean = f". Did you mean '{near}'?" if near else ""
            hint = "" if near else f"known are {listed(draft.catalogs)}"
            yield Problem(path, "P117", f"no catalog is named '{name}'{did_you_mean}", hint)
            continue
        catalog = draft.catalogs[name]
        if catalog is not None and len(rest) + 1 < PARTS_MIN.get(catalog.type, 3):
            fact = f"a table of the {catalog.type} catalog '{name}' needs a namespace"
            yield Problem(path, "P110", fact, f"write {name}.<namespace>.{rest[-1]}")


def _check_rules(draft: Draft) -> Iterator[Problem]:
    for index, table in enumerate(draft.tables):
        if table is not None:
            at: KeyPath = ("tables", index)
            yield from _check_groups(at, table)
            yield from check_expressions(at, table)
            yield from _check_lists(at, table)
            yield from check_format(at, table, draft.catalogs or {})
            yield from check_hints(at, table, table.records or draft.records or Records())
            if draft.quarantine is not None and table.into == draft.quarantine.into:
                fact = "the quarantine table cannot be a target as well"
                yield Problem((*at, "into"), "P119", fact, "name another table")


def _check_groups(at: KeyPath, table: Table) -> Iterator[Problem]:
    groups = {*notation.groups_of(table.from_), *table.route}
    for name in dict.fromkeys(notation.placeholders_of(table.into)):
        if name not in groups:
            near = nearest(name, groups)
            hint = f"write (?P<{name}>…) in 'from'"
            hint = f"did you mean {{{near}}}?" if near else hint
            fact = f"'from' has no group named '{name}'"
            yield Problem((*at, "into"), "P114", fact, hint)


def _check_lists(at: KeyPath, table: Table) -> Iterator[Problem]:
    lists: dict[str, Sequence[str]] = {
        "partition_by": table.partition_by,
        "source_columns": table.source_columns,
        "identifier_fields": table.identifier_fields,
        "sort_by": table.sort_by,
    }
    for name, values in lists.items():
        seen: set[str] = set()
        for index, value in enumerate(values):
            if value in seen:
                fact = f"{shown(value)} appears twice"
                yield Problem((*at, name, index), "P118", fact, "keep one of them")
            seen.add(value)
    for name in table.header_columns:
        if name.startswith(OWN_COLUMNS) or COLUMN.fullmatch(name) is None:
            fact = f"{shown(name)} cannot be a column for a header"
            hint = "write letters, digits and _, and none of _kafka_…, _change_…, _rescued"
            yield Problem((*at, "header_columns", name), "P110", fact, hint, on_key=True)
    for name in table.properties:
        if name.startswith(OWN_PROPERTIES):
            fact = f"properties that begin with '{OWN_PROPERTIES}' belong to the ledger"
            yield Problem((*at, "properties", name), "P119", fact, "remove it", on_key=True)


def _check_records(draft: Draft) -> Iterator[Problem]:
    shared = None if draft.records is None else draft.records.registry
    for at, records in _all_records(draft):
        yield from check_records(records, records.registry or shared, at)
    for index, table in enumerate(draft.tables):
        its = None if table is None else table.records or draft.records
        if table is None or its is None or table.schema_.case_sensitive:
            continue
        policies = {table.schema_.columns, table.schema_.types}
        if (its.format, its.envelope) != ("json", "none") or "rescue" in policies:
            fact = f"case_sensitive: false {NOT_YET} but for plain JSON records without rescue"
            yield Problem(("tables", index, "schema", "case_sensitive"), "P111", fact, "remove it")


def _all_records(draft: Draft) -> Iterator[tuple[KeyPath, Records]]:
    if draft.records is not None:
        yield ("records",), draft.records
    for index, table in enumerate(draft.tables):
        if table is not None and table.records is not None:
            yield ("tables", index, "records"), table.records


def _check_topics(draft: Draft) -> Iterator[Problem]:
    if draft.kafka is None:
        return
    earlier: list[tuple[int, str]] = []
    for index, table in enumerate(draft.tables):
        if table is None:
            continue
        at: KeyPath = ("tables", index, "from")
        first = next((i for i, source in earlier if _takes_all(source, table.from_)), None)
        if first is not None:
            fact = f"tables[{first}] takes these topics already, so this rule is never used"
            hint = f"put this rule above it, or add  continue: true  to tables[{first}]"
            yield Problem(at, "P118", fact, hint)
        if not table.continue_ and table.where is None:
            earlier.append((index, table.from_))
        if not _may_match(table.from_, draft.kafka):
            near = nearest(table.from_, draft.kafka.names)
            fact = "no topic of kafka.topics matches this"
            hint = f"did you mean {shown(near)}?" if near else "add the topic to kafka.topics"
            yield Problem(at, "P121", fact, hint)
    if None not in draft.tables:
        yield from _check_taken(draft.kafka, [table for table in draft.tables if table])


def _check_readings(draft: Draft) -> Iterator[Problem]:
    """Find rules below a condition that read their records otherwise than it does."""
    shared = draft.records or Records()
    rules = [(index, table) for index, table in enumerate(draft.tables) if table is not None]
    names = () if draft.kafka is None else draft.kafka.names
    for place, (index, table) in enumerate(rules):
        for above, other in rules[:place]:
            apart = differently_read(other, table, shared) if other.takes_some else ""
            if apart and _meet(other.from_, table.from_, names):
                fact = f"tables[{above}] has a condition, and reads these topics differently"
                hint = f"write the same {apart} in both rules, or put the records on two topics"
                yield Problem(("tables", index), "P118", fact, hint)


def differently_read(one: Table, other: Table, shared: Records) -> str:
    """Name the setting by which two rules read one record differently; empty when none does.

    `shared` are the records of the whole spec.
    """
    left, right = (
        (each.records or shared).model_dump(exclude={"registry"}) for each in (one, other)
    )
    if left != right:
        return "records"
    names = ("types", "assume_zone", "drop_offset", "case_sensitive")
    apart = (n for n in names if getattr(one.schema_, n) != getattr(other.schema_, n))
    return next((f"schema.{name}" for name in apart), "")


def _meet(source: str, other: str, names: Sequence[str]) -> bool:
    """Return whether two rules surely take one topic; routing looks at topics of patterns."""
    if _takes_all(source, other) or _takes_all(other, source):
        return True
    return any(matches(source, name) and matches(other, name) for name in names)


def _takes_all(source: str, other: str) -> bool:
    """Return whether a rule surely takes all topics of another; two patterns are not compared."""
    exact = notation.is_topic_name(other)
    return source == other or (exact and matches(source, other) is not None)


def _check_taken(kafka: Kafka, tables: Sequence[Table]) -> Iterator[Problem]:
    exact = {table.from_ for table in tables if notation.is_topic_name(table.from_)}
    patterns = [table.from_ for table in tables if table.from_ not in exact]
    for index, topic in enumerate(kafka.topics):
        if not isinstance(topic, str) or topic in exact:
            continue
        if not any(matches(source, topic) for source in patterns):
            fact = f"no rule takes the topic {shown(topic)}: its records are not landed"
            hint = "add a rule for it to tables, or remove it"
            yield Problem(("kafka", "topics", index), "P127", fact, hint, "warning")


def _check_same_tables(draft: Draft) -> Iterator[Problem]:
    """Two rules may feed one table only when they say the same of it."""
    rules: dict[str, list[tuple[int, Table]]] = defaultdict(list)
    for index, table in enumerate(draft.tables):
        if table is not None:
            rules[table.table].append((index, table))
    for (first, one), *others in rules.values():
        for index, other in others:
            for name in differences(one, other):
                path: KeyPath = ("tables", index, name)
                fact = f"tables[{first}] differs for the same table {one.table}"
                yield Problem(path, "P118", fact, f"write the same {name} in both rules")
            if one.from_ == other.from_ and (one.continue_ or one.where):
                fact = f"tables[{first}] already writes these topics to the same table"
                hint = "write one rule, with  where: (…) or (…)  for two conditions"
                yield Problem(("tables", index), "P118", fact, hint)


def differences(one: Table, other: Table) -> list[str]:
    """List the settings in which two rules for one table contradict each other."""
    apart = {"from_", "into", "continue_", "where"}
    left, right = (each.model_dump(exclude=apart) for each in (one, other))
    return [name for name in left if left[name] != right[name]]


def _check_sizes(draft: Draft) -> Iterator[Problem]:
    group, file = draft.row_group_bytes, draft.target_file_bytes
    if group is not None and file is not None and group > file:
        fact = "a row group cannot be larger than target_file_bytes"
        yield Problem(("row_group_bytes",), "P108", fact, "such as 64MB")


def _check_reach(draft: Draft) -> Iterator[Problem]:
    if draft.spark is not None and is_remote(draft.spark.master):
        yield from unreachable(draft.spark, draft.catalogs or {})


def _check_secrets(draft: Draft) -> Iterator[Problem]:
    blocks: list[tuple[KeyPath, Mapping[str, Any]]] = []
    if draft.kafka is not None:
        security = draft.kafka.security
        blocks.append((("kafka", "security"), security.revealed()))
    for name, catalog in (draft.catalogs or {}).items():
        if catalog is not None:
            entry = catalog.revealed()
            options: KeyPath = ("catalogs", name, "storage_options")
            blocks.append((("catalogs", name), entry))
            blocks.append((options, entry.get("storage_options", {})))
    for at, records in _all_records(draft):
        if records.registry is not None:
            registry = records.registry.revealed()
            blocks.append(((*at, "registry"), registry))
    if draft.spark is not None:
        blocks.append((("spark", "conf"), draft.spark.conf))
    if draft.pending is not None:
        blocks.append((("pending",), {"store": draft.pending.store}))
    for at, settings in blocks:
        for name, value in settings.items():
            if isinstance(value, str) and _holds_secret(name, value):
                fact = "a secret is in the spec itself"
                anywhere = "${env:…}" if at[0] == "spark" else "${file:/run/secrets/…} or ${env:…}"
                hint = f"write {anywhere} in its place"
                yield Problem((*at, name), "P124", fact, hint, "warning")


def _holds_secret(name: str, value: str) -> bool:
    return (is_secret_name(name) and is_literal(value)) or without_password(value) != value


def is_read(topic: str, kafka: Kafka) -> bool:
    """Return whether `kafka.topics` names a topic or matches it."""
    return topic in kafka.names or any(
        notation.compiled(each).fullmatch(topic) for each in kafka.patterns
    )


def _may_match(source: str, kafka: Kafka) -> bool:
    """Return whether a rule can take a topic; two patterns are not compared."""
    if notation.is_topic_name(source):
        return is_read(source, kafka)
    return bool(kafka.patterns) or any(matches(source, name) for name in kafka.names)


def matches(source: str, topic: str) -> re.Match[str] | None:
    """Match a rule's `from` with the whole of a topic's name."""
    return notation.matcher(source).fullmatch(topic)
