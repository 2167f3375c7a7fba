"""Objects of JSON that were made of other columns than the table has now, at any depth.

Invariants:
- a member is odd only where its object is there on both sides, and one side alone ever has it: what
  is missing in some objects of a side that has it in others is a difference;
- members of maps are values and no columns: they are never odd.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Path = tuple[str | None, ...]
"""Names from the whole value down; None stands for each item of a list, or each value of a map."""


def odd_members(
    columns: pa.Schema, made: Iterable[pa.RecordBatch], there: Iterable[pa.RecordBatch]
) -> frozenset[Path]:
    """Return the members that only the messages have, or only what rows of these columns make."""
    whole = pa.struct(list(columns))
    now, then = _Seen(), _Seen()
    for seen, batches in ((now, made), (then, there)):
        for batch in batches:
            for value in batch.column("value").drop_null().to_pylist():
                seen.look(json.loads(value), whole, ())
    objects = now.objects & then.objects
    return frozenset(path for path in now.members ^ then.members if path[:-1] in objects)


def without(value: bytes | None, odd: Collection[Path]) -> str | None:
    """Return an object without some members, in a form that does not say their order."""
    if value is None:
        return None
    found = json.loads(value, parse_float=repr)  # with all digits that are there
    for path in odd:
        _remove(found, path)
    return json.dumps(found, sort_keys=True)


def named(path: Path) -> str:
    """Return what a path is called."""
    words = ["" if step is None else f".{step}" for step in path]
    return "".join(words).removeprefix(".")


@dataclass(slots=True)
class _Seen:
    """The objects of one side, by their paths, and the members that any of them has."""

    objects: set[Path] = field(default_factory=set)
    members: set[Path] = field(default_factory=set)

    def look(self, value: Any, kind: pa.DataType, path: Path) -> None:
        """Note a value of some type; of what is no column now, the name alone."""
        if pa.types.is_struct(kind) and isinstance(value, dict):
            self.objects.add(path)
            known = {each.name: each.type for each in kind}
            for name, each in value.items():
                self.members.add((*path, name))
                if name in known:
                    self.look(each, known[name], (*path, name))
        elif pa.types.is_map(kind) and isinstance(value, dict):
            self._look_into(value.values(), kind.item_type, path)
        elif isinstance(value, list) and hasattr(kind, "value_type"):
            self._look_into(value, kind.value_type, path)

    def _look_into(self, values: Collection[Any], kind: pa.DataType, path: Path) -> None:
        for each in values:
            self.look(each, kind, (*path, None))


def _remove(value: Any, path: Path) -> None:
    step, *rest = path
    if step is None:
        inner: Sequence[Any] = [*value.values()] if isinstance(value, dict) else value or ()
        for each in inner:
            _remove(each, tuple(rest))
    elif isinstance(value, dict):
        if not rest:
            value.pop(step, None)
        elif step in value:
            _remove(value[step], tuple(rest))
