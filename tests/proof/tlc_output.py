"""Read the counterexample in what TLC says, as steps: which actor does what, and what that changes.

TLC names the action of each step and prints the state after it; lives, chains and requests are
found by comparing a state with the one before it.

Invariants: a trace is read whole or not at all; nothing is guessed where two readings would do.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.proof.steps import Step

State = Mapping[str, Any]

BY_HAND = 10_000_000
"""Attempts from this number on are acts by hand; the life that acts is in their number."""

_STATE = re.compile(r"^State \d+: <(?:Initial predicate|(\w+) line .*)>$")
_TOKEN = re.compile(r'\s*("[^"]*"|-?\d+|\w+|<<|>>|\|->|:>|@@|[\[\]{}(),])')


def steps_of(said: str) -> list[Step]:
    """Return the steps of the counterexample in what TLC said; none when it found none."""
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
    return {name: value_of(value) for name, value in zip(parts[1::2], parts[2::2], strict=True)}


def value_of(text: str) -> Any:
    """Read a value as TLC prints it: records as dicts, sequences as tuples, sets as frozensets."""
    tokens = _TOKEN.findall(text)
    value, rest = _value(tokens, 0)
    assert rest == len(tokens), f"{text[:80]!r} goes on after its value"
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
    """A record that may be in a set."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset((name, _frozen(value)) for name, value in self.items()))


def _frozen(value: Any) -> Any:
    return Record(value) if isinstance(value, dict) else value


def _step(action: str, before: State, after: State) -> Step:
    sent = after["net"] - before["net"]
    life = _life(action, before, after)
    facts = {
        "settled": _settled(before, after),
        "tables": tuple(n for n, _, _ in _changed(before, after, "tab")),
        "starts": _when_changed(before["ghost"]["base"][0], after["ghost"]["base"][0]),
        "low": _when_changed(before["log"]["low"], after["log"]["low"]),
    }
    if action == "Arrives":
        facts["request"] = _arrived(before, after)
    elif action == "Turn" and sent:
        [request] = sent
        facts |= {"request": _name(request), "chain": request["row"]["k"]}
    elif action in _FACTS:
        facts |= _FACTS[action](life, before, after)
    return Step(action, life, **facts)


def _life(action: str, before: State, after: State) -> int:
    """Return the life that took a step: it changed, sent a request, or settled its store."""
    if lives := [number for number, _, _ in _changed(before, after, "life")]:
        return lives[0]
    if sent := after["net"] - before["net"]:
        return max(_life_of(each["led"]["own"]) for each in sent)
    if action in ("Turn", "Sought"):  # only the owner of a store settles what is in it
        owners = {_life_of(old["own"]) for _, old, _ in _changed(before, after, "store")}
        return max(owners, default=0)
    return 0


def _changed(before: State, after: State, name: str) -> Iterator[tuple[int, Any, Any]]:
    """Yield what changed in a sequence, numbered from 1, as it was and as it is."""
    for number, (old, new) in enumerate(zip(before[name], after[name], strict=True), 1):
        if old != new:
            yield number, old, new


def _when_changed(old: Any, new: Any) -> Any:
    return None if old == new else new


def _settled(before: State, after: State) -> int:
    pairs = zip(before["store"], after["store"], strict=True)
    return sum(row not in new["rows"] for old, new in pairs for row in old["rows"])


def _life_of(owner: int) -> int:
    """Return the life of an owner, which is named by its line and its life."""
    return owner % 10


def _name(request: Mapping[str, Any]) -> tuple[int, int]:
    return _sender(request["led"]["own"], request["row"]["att"]), request["row"]["att"]


def _sender(owner: int, att: int) -> int:
    """Return the life that sent a request; what is done by hand bears it in its number."""
    return att // 1000 % 10 if att > BY_HAND else _life_of(owner)


def _arrived(before: State, after: State) -> tuple[int, int]:
    """Return the life and the attempt whose request landed, or was refused."""
    for _, old, new in _changed(before, after, "led"):
        landed = new["recent"] - old["recent"]
        att = max(att for _, att in landed or new["recent"])
        return _sender(new["own"], att), att
    [request] = before["net"] - after["net"]
    return _name(request)


def _epoch(life: int, _: State, after: State) -> dict[str, Any]:
    tracks = after["life"][life - 1]["trk"]
    return {"end": max(offset for track in tracks for offset in track["exam"])}


def _replay(_: int, before: State, after: State) -> dict[str, Any]:
    [request] = after["net"] - before["net"]
    gone = [file for file in before["tab"][0]["files"] if file["n"] in request["gone"]]
    rows = request["row"]["rows"] or {each for file in gone for each in file["rows"]}
    return {"offsets": (min(rows) % 10, max(rows) % 10 + 1)}


def _rollback(_: int, before: State, after: State) -> dict[str, Any]:
    [(_, _, table)] = _changed(before, after, "tab")
    return {"rows": len({row for file in table["files"] for row in file["rows"]})}


def _leave(_: int, before: State, after: State) -> dict[str, Any]:
    gone, back = after["away"] - before["away"], before["away"] - after["away"]
    return {"leaving": tuple(sorted(gone)), "returning": tuple(sorted(back))}


def _orphans(_: int, before: State, after: State) -> dict[str, Any]:
    [(chain, att)] = after["ghost"]["gone"] - before["ghost"]["gone"]
    rows = [row for store in before["store"] for row in store["rows"]]
    [place] = [n for n, row in enumerate(rows) if (row["k"], row["att"]) == (chain, att)]
    return {"pending": place}


def _retopic(_: int, before: State, after: State) -> dict[str, Any]:
    assert before["log"]["live"] != after["log"]["live"], "another topic is there"
    return {}


_FACTS: Mapping[str, Callable[[int, State, State], dict[str, Any]]] = {
    "Begin": lambda _, __, after: {"end": max(after["log"]["end"])},
    "Epoch": _epoch,
    "Replay": _replay,
    "Rollback": _rollback,
    "Leave": _leave,
    "Lose": lambda _, before, after: {
        "stores": tuple(number for number, _, _ in _changed(before, after, "store"))
    },
    "Orphans": _orphans,
    "Retention": lambda _, __, after: {"low": after["log"]["low"]},
    "Retopic": _retopic,
}
