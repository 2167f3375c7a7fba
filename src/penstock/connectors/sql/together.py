"""What several threads ask of a store while it is busy is done in one act when it is free.

Invariants:
- what was asked for is done when `do` returns; an error of it is raised there;
- an act for several that fails is done again for each alone, so that an error is that of one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from penstock.core.errors import PenstockError

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


@dataclass(slots=True, eq=False)
class _Asked(Generic[Key, Item]):
    key: Key
    item: Item
    done: bool = False


@dataclass(slots=True)
class Together(Generic[Key, Item]):
    """Does items of equal keys in one `act`, which does all of them or, where it raises, none."""

    act: Callable[[Key, Sequence[Item]], None]
    _waiting: list[_Asked[Key, Item]] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def do(self, key: Key, item: Item) -> None:
        """Do an item, with all that wait by then. Raises what `act` raises for it alone."""
        asked = _Asked(key, item)
        with self._guard:
            self._waiting.append(asked)
        with self._turn:
            if asked.done:
                return
            group = self._taken(asked)
            if len(group) > 1:
                with suppress(PenstockError):
                    self.act(key, [each.item for each in group])
                    for each in group:
                        each.done = True
                    return
            self.act(key, [item])

    def _taken(self, asked: _Asked[Key, Item]) -> list[_Asked[Key, Item]]:
        """Take those that wait with one; none where it was taken before: it goes alone."""
        with self._guard:
            if asked not in self._waiting:
                return []
            group = [each for each in self._waiting if each.key == asked.key]
            self._waiting = [each for each in self._waiting if each.key != asked.key]
        return group
