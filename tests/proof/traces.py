"""Read the counterexamples that TLC told, as steps: who did what, and what that changed.

TLC names the action of each step and prints the state after it; lives, chains and requests are
found out by comparing a state with the one before it.

Invariants: a trace is read whole or not at all; nothing is guessed where two readings would do.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

State = Mapping[str, Any]

_STATE = re.compile(r"^State \d+: <(?:Initial predicate|(\w+) line .*)>$")
_TOKEN = re.compile(r'\s*("[^"]*"|-?\d+|\w+|<<|>>|\|->|:>|@@|[\[\]{}(),])')


@dataclass(frozen=True)
class Step:
    """One step: the action's name, the life that took it (0: none), and the states around it."""

    action: str
    life: int
    before: State
    after: State
    facts: Mapping[str, Any] = field(default_factory=dict)


def steps_of(said: str) -> list[Step]:
    """Give the steps of the counterexample in what TLC said; none when it found none."""
    states = list(_states(said))
    pairs = itertools.pairwise(states)
    return [_step(action, before, after) for (_, before), (action, after) in pairs]


def _states(said: str) -> Iterator[tuple[str, State]]:
    lines = iter(said.splitlines())
    for line in lines:
        found = _STATE.match(line)
        if found is None:
            continue
        text = []
        for each in lines:
            if not each.strip():
                break
            text.append(each)
        yield found[1] or "Init", _variables("\n".join(text))


def _variables(text: str) -> State:
    parts = re.split(r"^/\\ (\w+) = ", text, flags=re.MULTILINE)
    return {name: value_of(told) for name, told in zip(parts[1::2], parts[2::2], strict=True)}


def value_of(text: str) -> Any:
    """Read a value as TLC prints it: records as dicts, sequences as tuples, sets as frozensets."""
    tokens = _TOKEN.findall(text)
    value, rest = _value(tokens, 0)
    assert rest == len(tokens), f"{text[:80]!r} goes on behind its value"
    return value


def _value(tokens: list[str], at: int) -> tuple[Any, int]:
    token = tokens[at]
    if token == "<<":
        items, at = _items(tokens, at + 1, ">>")
        return tuple(items), at
    if token == "{":
        items, at = _items(tokens, at + 1, "}")
        return frozenset(map(_frozen, items)), at
    if token == "[":
        return _record(tokens, at + 1)
    if token == "(":
        return _function(tokens, at + 1)
    if token in ("TRUE", "FALSE"):
        return token == "TRUE", at + 1
    return token[1:-1] if token[0] == '"' else int(token), at + 1


def _items(tokens: list[str], at: int, end: str) -> tuple[list[Any], int]:
    items = []
    while tokens[at] != end:
        item, at = _value(tokens, at)
        items.append(item)
        at += tokens[at] == ","
    return items, at + 1


def _record(tokens: list[str], at: int) -> tuple[dict[str, Any], int]:
    record = {}
    while tokens[at] != "]":
        assert tokens[at + 1] == "|->", f"{tokens[at]} is no field"
        record[tokens[at]], at = _value(tokens, at + 2)
        at += tokens[at] == ","
    return record, at + 1


def _function(tokens: list[str], at: int) -> tuple[dict[Any, Any], int]:
    function = {}
    while tokens[at] != ")":
        key, at = _value(tokens, at)
        assert tokens[at] == ":>", f"{tokens[at]} maps nothing"
        function[key], at = _value(tokens, at + 1)
        at += tokens[at] == "@@"
    return function, at + 1


class Record(dict[str, Any]):
    """A record that may stand in a set."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset((name, _frozen(value)) for name, value in self.items()))


def _frozen(value: Any) -> Any:
    return Record(value) if isinstance(value, dict) else value


def _step(action: str, before: State, after: State) -> Step:
    lives = [
        number
        for number, (old, new) in enumerate(zip(before["life"], after["life"], strict=True), 1)
        if old != new
    ]
    sent = after["net"] - before["net"]
    arrived = [p for p, (old, new) in enumerate(_pairs(before, after, "tab"), 1) if old != new]
    life = lives[0] if lives else 0
    if not life and sent:
        life = max(_sender(each) for each in sent)
    facts = {"sent": sent, "tables": arrived, "settled": _settled(before, after)}
    if not life and action in ("Turn", "Sought"):
        owners = {life_of(old["own"]) for old, new in _pairs(before, after, "store") if old != new}
        life = max(owners, default=0)  # only the owner of a store settles what is in it
    return Step(action, life, before, after, facts)


def _pairs(before: State, after: State, name: str) -> Iterator[tuple[Any, Any]]:
    return zip(before[name], after[name], strict=True)


def _sender(request: Mapping[str, Any]) -> int:
    return life_of(request["led"]["own"])


def life_of(owner: int) -> int:
    """Give the life of an owner, who is told by his line and his life."""
    return owner % 10


def _settled(before: State, after: State) -> list[Any]:
    gone = []
    for old, new in _pairs(before, after, "store"):
        gone += [row for row in old["rows"] if row not in new["rows"]]
    return gone
