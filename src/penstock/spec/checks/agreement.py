"""What must agree across settings: catalogs and names, rules, sizes, security, secrets.

Invariants: every check is pure and reads a draft in which wrong blocks are left out (None), so
that one mistake does not hide the next; every finding names the setting to change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.spec.checks.connections import check_records, check_security
from penstock.spec.checks.expressions import check_expressions
from penstock.spec.checks.formats import check_format, check_hints
from penstock.spec.checks.keyed import check_keyed
from penstock.spec.checks.literals import literal_secrets, of_connections
from penstock.spec.checks.rules import (
    check_readings,
    check_same_tables,
    check_topics,
    is_read,
)
from penstock.spec.language import notation
from penstock.spec.problems import KeyPath, Problem, listed, nearest, shown
from penstock.spec.settings.catalogs import Catalog
from penstock.spec.settings.commit import CommitSettings
from penstock.spec.settings.fields import NOT_YET
from penstock.spec.settings.records import Records
from penstock.spec.settings.sections import (
    Kafka,
    MaintainSettings,
    PendingSettings,
    QuarantineSettings,
    SparkSettings,
    Undecided,
)
from penstock.spec.settings.table import Table

_HERE = ("local", "inline", "existing")
_PLACES = {"delta": "root", "rest": None}  # a server places its tables itself
PARTS_MIN = {"delta": 2}  # of Iceberg, 3: a namespace is always there
OWN_PROPERTIES = "penstock."
OWN_COLUMNS = ("_kafka_", "_change_", "_rescued")
COMMITS_A_SECOND_EASY = 1.75
"""Half of what a table in a catalog with answers 50 ms late bears: 3.5 commits, one at a time."""
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class Draft:
    """The blocks of a spec that are right in themselves; a wrong one is None.

    `catalogs` is None when no catalog can be known from its text.
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
    maintain: MaintainSettings | None = None
    undecided: Sequence[Undecided] = ()
    shards: int | None = None
    commit: CommitSettings | None = None

    @property
    def rules(self) -> list[tuple[int, Table]]:
        """List the rules that are right in themselves, with their numbers."""
        return [(index, table) for index, table in enumerate(self.tables) if table is not None]


def check(draft: Draft) -> list[Problem]:
    """Find everything that does not agree, warnings included."""
    return [
        *check_undecided(draft.undecided),
        *(check_security(draft.kafka.security) if draft.kafka else ()),
        *(_check_start(draft.kafka) if draft.kafka else ()),
        *_check_catalogs(draft),
        *_check_rules(draft),
        *_check_shards(draft),
        *_check_records(draft),
        *(check_topics(draft.kafka, draft.tables, draft.rules) if draft.kafka else ()),
        *check_same_tables(draft.rules),
        *check_readings(draft.rules, draft.records or Records(), _names(draft.kafka)),
        *_check_sizes(draft),
        *(_check_maintain(draft.maintain) if draft.maintain else ()),
        *_check_reach(draft),
        *_check_secrets(draft),
    ]


def _names(kafka: Kafka | None) -> Sequence[str]:
    return () if kafka is None else kafka.names


def check_undecided(undecided: Sequence[Undecided]) -> Iterator[Problem]:
    """Refuse what another system did and this spec does not: a person has to decide that."""
    for index, each in enumerate(undecided):
        given = f" = {shown(each.value)}" if each.value else ""
        fact = f"{shown(each.option)}{given} is not decided: {each.decide}"
        hint = "write your decision into the spec, then remove this entry"
        yield Problem(("undecided", index), "P175", fact, hint)


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
    if draft.catalogs is None:
        return
    targets: list[tuple[KeyPath, str]] = [
        (("tables", index, "into"), table.into) for index, table in draft.rules
    ]
    if draft.quarantine is not None:
        targets.append((("quarantine", "into"), draft.quarantine.into))
    for path, into in targets:
        name, *rest = into.split(".")
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
    for index, table in draft.rules:
        at: KeyPath = ("tables", index)
        yield from _check_groups(at, table)
        yield from check_expressions(at, table)
        yield from _check_lists(at, table)
        yield from check_format(at, table, draft.catalogs or {})
        yield from check_hints(at, table, table.records or draft.records or Records())
        yield from check_keyed(at, table, draft.records or Records())
        if draft.quarantine is not None and table.into == draft.quarantine.into:
            fact = "the quarantine table cannot be a target as well"
            yield Problem((*at, "into"), "P119", fact, "name another table")


def _check_shards(draft: Draft) -> Iterator[Problem]:
    """Refuse what several processes cannot land beside each other (docs/design/0339), and warn
    where they commit so often that they hold each other up.
    """
    commits = (draft.shards or 1) / draft.commit.every_seconds if draft.commit else 0.0
    if (draft.shards or 1) > 1 and commits > COMMITS_A_SECOND_EASY:
        fact = f"{draft.shards} shards commit {commits:.1f} times a second to each table"
        hint = f"where answers take 50 ms, write  commit: {{ every: {_every(draft)} }}"
        yield Problem(("shards",), "P530", fact, hint, "warning")
    for index, table in draft.rules if (draft.shards or 1) > 1 else ():
        at: KeyPath = ("tables", index)
        if table.is_keyed:
            fact = "a keyed table has no shards: changes of a key in two of them have no order"
            yield Problem(
                (*at, "keys"), "P157", fact, "land it by a spec of its own, without shards"
            )
        if table.route:
            fact = "a route has no shards: its tables begin where all of it was decided"
            yield Problem(
                (*at, "route"), "P157", fact, "land it by a spec of its own, without shards"
            )


def _every(draft: Draft) -> str:
    return f"{math.ceil((draft.shards or 1) / COMMITS_A_SECOND_EASY)}s"


def _check_groups(at: KeyPath, table: Table) -> Iterator[Problem]:
    groups = {*notation.matcher(table.from_).groupindex, *table.route}
    for name in dict.fromkeys(notation.PLACEHOLDER.findall(table.into)):
        if name not in groups:
            near = nearest(name, groups)
            hint = f"write (?P<{name}>…) in 'from'"
            hint = f"did you mean {{{near}}}?" if near else hint
            fact = f"'from' has no group named '{name}'"
            yield Problem((*at, "into"), "P114", fact, hint)


def _check_lists(at: KeyPath, table: Table) -> Iterator[Problem]:
    for name in (
        "partition_by",
        "source_columns",
        "identifier_fields",
        "sort_by",
        "keys",
        "sequence_by",
    ):
        values = getattr(table, name)
        for index, value in enumerate(values):
            if value in values[:index]:
                fact = f"{shown(value)} appears twice"
                yield Problem((*at, name, index), "P118", fact, "keep one of them")
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
    for index, table in draft.rules:
        its = table.records or draft.records
        yield from _check_spellings(table, its, ("tables", index, "schema"))


_SPELLED = {
    "case_sensitive": (("json",), "plain JSON records"),
    "match": (("json", "avro", "protobuf"), "records of JSON, Avro or Protobuf"),
}
"""The formats in which fields may be spelled otherwise than columns."""


def _check_spellings(table: Table, its: Records | None, at: KeyPath) -> Iterator[Problem]:
    schema = table.schema_
    asked = {"case_sensitive": not schema.case_sensitive, "match": schema.match != "name"}
    said = {"case_sensitive": "case_sensitive: false", "match": "match: name_mapping"}
    for name in (name for name, is_asked in asked.items() if is_asked):
        allowed, which = _SPELLED[name]
        is_plain = its is None or (its.format in allowed and its.envelope == "none")
        if not is_plain or (its is not None and "rescue" in {schema.columns, schema.types}):
            fact = f"{said[name]} {NOT_YET} but for {which} without rescue"
            yield Problem((*at, name), "P111", fact, "remove it")
    if asked["match"] and asked["case_sensitive"]:
        yield Problem((*at, "match"), "P111", f"both {' and '.join(said.values())} {NOT_YET}")
    if asked["match"] and schema.create:
        fact = f"match: name_mapping {NOT_YET} for tables that a run creates: these have none"
        yield Problem((*at, "match"), "P111", fact, "remove  create, or remove it")


def _all_records(draft: Draft) -> Iterator[tuple[KeyPath, Records]]:
    if draft.records is not None:
        yield ("records",), draft.records
    for index, table in draft.rules:
        if table.records is not None:
            yield ("tables", index, "records"), table.records


def _check_sizes(draft: Draft) -> Iterator[Problem]:
    group, file = draft.row_group_bytes, draft.target_file_bytes
    if group is not None and file is not None and group > file:
        fact = "a row group cannot be larger than target_file_bytes"
        yield Problem(("row_group_bytes",), "P108", fact, "such as 64MB")


def _check_maintain(maintain: MaintainSettings) -> Iterator[Problem]:
    if maintain.only and maintain.every_seconds is None:
        fact = "`only` says nothing without `every`: no run maintains a table"
        hint = "add every, such as 6h; `penstock maintain` takes --only"
        yield Problem(("maintain", "only"), "P177", fact, hint, "warning", on_key=True)


def _check_reach(draft: Draft) -> Iterator[Problem]:
    if draft.spark is not None and is_remote(draft.spark.master):
        yield from unreachable(draft.spark, draft.catalogs or {})


def _check_secrets(draft: Draft) -> Iterator[Problem]:
    yield from literal_secrets(
        of_connections(draft.kafka, draft.catalogs or {}, draft.spark, draft.pending)
    )
    yield from literal_secrets(
        ((*at, "registry"), records.registry.revealed())
        for at, records in _all_records(draft)
        if records.registry is not None
    )


def is_remote(master: str) -> bool:
    """Return whether a master surely starts workers on other hosts; a lent session may, too."""
    return "${" not in master and master.partition("[")[0] not in _HERE


def unreachable(spark: SparkSettings, catalogs: Mapping[str, Catalog | None]) -> Iterator[Problem]:
    """Find directories of this machine that hold tables, unless they are declared shared.

    A place that holds a reference is checked once it is resolved.
    """
    if spark.shared_directories:
        return
    for name, catalog in catalogs.items():
        setting = None if catalog is None else _PLACES.get(catalog.type, "warehouse")
        place = None if setting is None else getattr(catalog, setting)
        if place is None or place.startswith("${"):
            continue
        scheme, mark, _ = place.partition("://")
        if not mark or scheme == "file":
            yield Problem(
                ("catalogs", name, str(setting)),
                "P128",
                "workers on other hosts cannot write to a directory of this one",
                "such as s3://lake/warehouse; where all hosts mount it, add to spark:"
                "  shared_directories: true",
            )
