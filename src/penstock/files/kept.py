"""Keeps what was read of files that never change, so that it is read once.

Invariant: what is kept weighs no more than the limit; what was not asked for longest goes first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """Values by the names of what they were read from; safe between threads."""

    def __init__(self, weight_max: int) -> None:
        self._weight_max = weight_max
        self._weight = 0
        self._values: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, name: str) -> Value | None:
        """Return what is kept under a name."""
        with self._guard:
            if name not in self._values:
                return None
            self._values.move_to_end(name)
            return self._values[name][0]

    def keep(self, name: str, value: Value, weight: int) -> None:
        """Keep a value, if it is not heavier than all that may be kept."""
        with self._guard:
            if name in self._values or weight > self._weight_max:
                return
            self._values[name] = value, weight
            self._weight += weight
            while self._weight > self._weight_max:
                _, (_, freed) = self._values.popitem(last=False)
                self._weight -= freed
