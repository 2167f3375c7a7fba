"""Which findings are consequences of others, so that one mistake is told once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.spec.problems import KeyPath, Problem

_OF_KEYED = frozenset({"P194", "P195", "P196", "P197", "P198", "P199", "P260", "P261", "P262"})
_SAY_MODE = ("mode", "keys", "operation", "records")
"""Settings of a rule by which it is a keyed one, and how."""


class Broken:
    """The paths of problems found so far: what is found at or around them is a consequence.

    A setting that is given twice is not among them: its first value counts.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.paths = {each.path for each in problems if each.code != "P103"}
        self.above = {path[:size] for path in self.paths for size in range(len(path) + 1)}
        self.tables = any(path[:1] == ("tables",) for path in self.paths)

    def covers(self, path: KeyPath) -> bool:
        """Return whether a path is one of theirs, or inside of one."""
        return any(path[:size] in self.paths for size in range(len(path) + 1))

    def hides(self, problem: Problem) -> bool:
        """Return whether a broken block may cause a finding: only complete rules are compared."""
        if problem.code in _OF_KEYED:
            rule = problem.path[:2]
            around = [("records",), *((*rule, name) for name in _SAY_MODE)]
            if not self.above.isdisjoint(around):
                return True
        return (problem.code == "P118" and self.tables) or self.covers(problem.path)

    def left_out(self, value: Any, path: KeyPath) -> Any:
        """Return the data at a path without the settings that are wrong."""
        if not isinstance(value, dict):
            return value
        return {
            name: self.left_out(inner, (*path, name))
            for name, inner in value.items()
            if (*path, name) not in (self.above if isinstance(inner, list) else self.paths)
        }
