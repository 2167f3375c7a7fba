"""Which topics the rules of a spec take, and what rules of one topic or table must have alike.

Invariants: every check is pure; two patterns are never compared, so what is found is certain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from penstock.spec.language import notation
from penstock.spec.problems import KeyPath, Problem, nearest, shown
from penstock.spec.settings.records import Records
from penstock.spec.settings.sections import Kafka
from penstock.spec.settings.table import Table


def check_topics(
    kafka: Kafka, tables: Sequence[Table | None], rules: Sequence[tuple[int, Table]]
) -> Iterator[Problem]:
    """Find rules that no topic is left for, and topics that no rule takes."""
    earlier: list[tuple[int, str]] = []
    for index, table in rules:
        at: KeyPath = ("tables", index, "from")
        first = next((i for i, source in earlier if _takes_all(source, table.from_)), None)
        if first is not None:
            fact = f"tables[{first}] takes these topics already, so this rule is never used"
            hint = f"put this rule above it, or add  continue: true  to tables[{first}]"
            yield Problem(at, "P118", fact, hint)
        if not table.continue_ and table.where is None:
            earlier.append((index, table.from_))
        if not _may_match(table.from_, kafka):
            near = nearest(table.from_, kafka.names)
            fact = "no topic of kafka.topics matches this"
            hint = f"did you mean {shown(near)}?" if near else "add the topic to kafka.topics"
            yield Problem(at, "P121", fact, hint)
    if None not in tables:
        yield from _check_taken(kafka, [table.from_ for _, table in rules])


def check_readings(
    rules: Sequence[tuple[int, Table]], shared: Records, names: Sequence[str]
) -> Iterator[Problem]:
    """Find rules that read records of one topic differently, one of them with a condition.

    `shared` are the records of the whole spec; `names` the topics that it names.
    """
    for place, (index, table) in enumerate(rules):
        for above, other in rules[:place]:
            some = other.where is not None and not other.continue_  # it leaves others to the rest
            differing = differently_read(other, table, shared) if some else ""
            if differing and _meet(other.from_, table.from_, names):
                fact = f"tables[{above}] has a condition, and reads these topics differently"
                hint = f"write the same {differing} in both rules, or put the records on two topics"
                yield Problem(("tables", index), "P118", fact, hint)


def check_same_tables(rules: Sequence[tuple[int, Table]]) -> Iterator[Problem]:
    """Find rules for one table that contradict each other."""
    of_table: dict[str, list[tuple[int, Table]]] = defaultdict(list)
    for index, table in rules:
        of_table[table.table].append((index, table))
    for (first, one), *others in of_table.values():
        for index, other in others:
            for name in differences(one, other):
                path: KeyPath = ("tables", index, name)
                fact = f"tables[{first}] differs for the same table {one.table}"
                yield Problem(path, "P118", fact, f"write the same {name} in both rules")
            if one.from_ == other.from_ and (one.continue_ or one.where):
                fact = f"tables[{first}] already writes these topics to the same table"
                hint = "write one rule, with  where: (…) or (…)  for two conditions"
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
    names = ("types", "assume_zone", "drop_offset", "case_sensitive", "match")
    differing = (n for n in names if getattr(one.schema_, n) != getattr(other.schema_, n))
    return next((f"schema.{name}" for name in differing), "")


def differences(one: Table, other: Table) -> list[str]:
    """List the settings in which two rules for one table contradict each other."""
    other_settings = {"from_", "into", "continue_", "where"}
    left, right = (each.model_dump(exclude=other_settings) for each in (one, other))
    return [name for name in left if left[name] != right[name]]


def is_read(topic: str, kafka: Kafka) -> bool:
    """Return whether `kafka.topics` names a topic or matches it."""
    return topic in kafka.names or any(
        notation.compiled(each).fullmatch(topic) for each in kafka.patterns
    )


def _check_taken(kafka: Kafka, sources: Sequence[str]) -> Iterator[Problem]:
    for index, topic in enumerate(kafka.topics):
        if isinstance(topic, str) and not any(notation.matches(each, topic) for each in sources):
            fact = f"no rule takes the topic {shown(topic)}: its records are not landed"
            hint = "add a rule for it to tables, or remove it"
            yield Problem(("kafka", "topics", index), "P127", fact, hint, "warning")


def _may_match(source: str, kafka: Kafka) -> bool:
    """Return whether a rule can take a topic; two patterns are not compared."""
    if notation.is_topic_name(source):
        return is_read(source, kafka)
    return bool(kafka.patterns) or any(notation.matches(source, name) for name in kafka.names)


def _meet(source: str, other: str, names: Sequence[str]) -> bool:
    """Return whether two rules surely take one topic; routing checks topics of patterns."""
    if _takes_all(source, other) or _takes_all(other, source):
        return True
    return any(notation.matches(source, name) and notation.matches(other, name) for name in names)


def _takes_all(source: str, other: str) -> bool:
    """Return whether a rule surely takes all topics of another; two patterns are not compared."""
    exact = notation.is_topic_name(other)
    return source == other or (exact and notation.matches(source, other) is not None)
