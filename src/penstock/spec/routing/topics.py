"""Which tables a topic's records go to: pure, by name alone.

Invariants:
- rules are tried in order; the first that matches wins, unless it says `continue`;
- a topic never goes to one table twice;
- filled names hold `[a-z0-9_]` only, and never begin a part with a digit.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from penstock.core.errors import InvalidError
from penstock.spec.checks.rules import differences, differently_read
from penstock.spec.language.notation import (
    BRANCH_SIGN,
    NAME_CHARS_MAX,
    PLACEHOLDER,
    is_topic_name,
    matches,
)
from penstock.spec.model import Pipeline
from penstock.spec.problems import listed, shown
from penstock.spec.settings.table import Table

_FOREIGN = re.compile(r"[^a-z0-9_]")
_MENTIONED_MAX = 4
_ANY, _MORE = "one", "more"


@dataclass(frozen=True, slots=True)
class Target:
    """One table that a topic goes to, by its full name, and the rule that says so.

    `number` is the rule's in the spec, `above` those of rules that take a record first where their
    condition holds. `table` keeps the placeholders that the rule's `route` fills by record.
    """

    table: str
    rule: Table
    number: int = 0
    above: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Collision:
    """Topics that one table cannot take together, and why."""

    table: str
    topics: tuple[str, ...]
    reason: str


def tables_for(pipeline: Pipeline, topic: str) -> tuple[Target, ...]:
    """List the tables that a topic lands in; none when no rule takes it.

    Raises InvalidError when a name cannot be made of the topic's.
    """
    targets: dict[str, Target] = {}
    above: tuple[int, ...] = ()
    for number, rule in enumerate(pipeline.tables):
        found = matches(rule.from_, topic)
        if found is None:
            continue
        for other in above:
            if field := differently_read(pipeline.tables[other], rule, pipeline.records):
                raise InvalidError(
                    f"tables[{other}] has a condition, and tables[{number}] below it reads records"
                    f" of {shown(topic)} otherwise",
                    code="P118",
                    hint=f"write the same {field} in both rules, or put the records on two topics",
                )
        table = _filled(rule, topic, found.groupdict())
        before = targets.setdefault(table, Target(table, rule, number, above))
        if before.rule is not rule and (before.rule.where or rule.where):
            raise InvalidError(
                f"tables[{before.number}] and tables[{number}] both put records of {shown(topic)}"
                f" into {table}, and differ only in a condition",
                code="P146",
                hint="write one rule with  where: (…) or (…)",
            )
        if rule.continue_:
            continue
        if rule.where is None:
            break
        above = (*above, number)
    return tuple(targets.values())


def routes(pipeline: Pipeline, topics: Iterable[str]) -> Mapping[str, tuple[Target, ...]]:
    """Return the tables of every topic, once it is sure that they can live together.

    Raises InvalidError when two topics collide, or there are more tables than `limits.tables`.
    """
    found = {topic: tables_for(pipeline, topic) for topic in sorted(set(topics))}
    for collision in collisions(pipeline, found):
        raise InvalidError(
            f"the topics {listed(map(shown, collision.topics), most=_MENTIONED_MAX)} cannot share"
            f" the table {collision.table}: {collision.reason}",
            code="P141",
            hint="give one of them a rule of its own, above the others, with another table",
        )
    tables = {target.table for targets in found.values() for target in targets}
    if len(tables) > pipeline.limits.tables:
        raise InvalidError(
            f"the topics lead to {len(tables)} tables, and limits.tables is"
            f" {pipeline.limits.tables}",
            code="P142",
            hint="narrow the patterns of kafka.topics, or raise limits.tables",
        )
    return found


def collisions(pipeline: Pipeline, routed: Mapping[str, tuple[Target, ...]]) -> Iterator[Collision]:
    """List the tables that topics lead to without being meant to."""
    by_table: dict[str, list[tuple[str, Table]]] = defaultdict(list)
    for topic, targets in routed.items():
        for target in targets:
            by_table[target.table].append((topic, target.rule))
    for table, sources in sorted(by_table.items()):
        topics = tuple(topic for topic, _ in sources)
        reason = _reason(sources)
        if table.partition(BRANCH_SIGN)[0] == pipeline.quarantine.into:
            yield Collision(table, topics, "it is the quarantine table")
        elif reason:
            yield Collision(table, topics, reason)
    templates = (table for table, of in by_table.items() if any(rule.route for _, rule in of))
    for one, other in _meeting(templates):
        topics = tuple(topic for table in (one, other) for topic, _ in by_table[table])
        reason = f"records can ask for a name that {other} makes as well"
        yield Collision(one, tuple(dict.fromkeys(topics)), reason)


def _meeting(templates: Iterable[str]) -> Iterator[tuple[str, str]]:
    """List the names that can become the same; only those that begin alike are compared."""
    begun = sorted((PLACEHOLDER.split(template)[0], template) for template in templates)
    for index, (beginning, one) in enumerate(begun):
        for following, other in begun[index + 1 :]:
            if not following.startswith(beginning):
                break
            if may_meet(one, other):
                yield one, other


@lru_cache(maxsize=4096)
def may_meet(one: str, other: str) -> bool:
    """Return whether two names can become the same once records fill their placeholders.

    The name alone must show which rule a table belongs to, in every later run.
    """
    left, right = _steps(one), _steps(other)
    reached, waiting = set(), [(0, 0)]  # pairs of places that can be reached together
    while waiting:
        pair = waiting.pop()
        if pair in reached:
            continue
        reached.add(pair)
        i, j = pair
        if i == len(left) and j == len(right):
            return True
        if i < len(left) and left[i] == _MORE:
            waiting.append((i + 1, j))
        if j < len(right) and right[j] == _MORE:
            waiting.append((i, j + 1))
        if i < len(left) and j < len(right) and _alike(left[i], right[j]):
            waiting.append((i + (left[i] != _MORE), j + (right[j] != _MORE)))
    return False


def _steps(template: str) -> tuple[str, ...]:
    """Return a name as single characters; a placeholder is any one of a name, then any number."""
    steps: list[str] = []
    for index, part in enumerate(PLACEHOLDER.split(template)):
        steps += [_ANY, _MORE] if index % 2 else part
    return tuple(steps)


def _alike(one: str, other: str) -> bool:
    open_one, open_other = one in (_ANY, _MORE), other in (_ANY, _MORE)
    if open_one and open_other:
        return True
    if open_one or open_other:
        return not _FOREIGN.fullmatch(other if open_one else one)
    return one == other


def _reason(sources: list[tuple[str, Table]]) -> str:
    """Return why topics may not share a table, or "" when they are meant to."""
    raws = {raw for topic, rule in sources if (raw := _raw(rule, topic))}
    if len(raws) > 1:
        return "their names differ only in what a table's name cannot hold"
    fixed = {topic for topic, rule in sources if not _groups(rule)}
    filled = {topic for topic, rule in sources if _groups(rule)}
    if fixed and filled and fixed != filled:
        return "one rule names it, another makes the same name of a topic"
    first, *others = dict.fromkeys(rule.table for _, rule in sources)
    rules = {rule.table: rule for _, rule in reversed(sources)}
    if any(differences(rules[first], rules[other]) for other in others):
        return "their rules say different things of it"
    return ""


def _raw(rule: Table, topic: str) -> tuple[str | None, ...]:
    found = matches(rule.from_, topic)
    assert found is not None, "a target's rule matches its topic"
    groups = found.groupdict()
    return tuple(groups[name] for name in dict.fromkeys(_groups(rule)))


def _groups(rule: Table) -> list[str]:
    return [name for name in PLACEHOLDER.findall(rule.into) if name not in rule.route]


def _filled(rule: Table, topic: str, groups: Mapping[str, str | None]) -> str:
    if is_topic_name(rule.from_):
        return rule.table
    catalog, *parts = rule.into.split(".")
    branch = rule.table.removeprefix(rule.into)
    return ".".join([catalog, *(_part(part, rule, topic, groups) for part in parts)]) + branch


def _part(template: str, rule: Table, topic: str, groups: Mapping[str, str | None]) -> str:
    def fill(found: re.Match[str]) -> str:
        if found[1] in rule.route:
            return found[0]
        return _FOREIGN.sub("_", (groups.get(found[1]) or "").lower())

    part = PLACEHOLDER.sub(fill, template)
    part = f"_{part}" if part[:1].isdigit() else part
    if part and len(part) <= NAME_CHARS_MAX:
        return part
    fault = f"longer than {NAME_CHARS_MAX} characters" if part else "empty"
    raise InvalidError(
        f"the topic {shown(topic)} cannot be mapped to a table by {rule.into}: the part {template}"
        f" would be {fault}",
        code="P140",
        hint="add a rule of its own for this topic above the others",
    )
