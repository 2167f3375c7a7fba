"""Mappings of which few keys change at a time, however many there are.

Invariant: what is shared is never changed, so a copy and its origin go their own ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
CHANGES_MAX = 4096
"""With more changes than these a mapping is made anew."""


class Changing(MutableMapping[_K, _V]):
    """A mapping that begins as another one, which is shared, and keeps what changes since.

    `_gone` are keys of the shared one that it has no longer, or otherwise.
    """

    def __init__(
        self,
        shared: Mapping[_K, _V],
        come: dict[_K, _V] | None = None,
        gone: AbstractSet[_K] = frozenset(),
    ) -> None:
        self._shared, self._come, self._gone = shared, come or {}, {*gone}

    def copy(self) -> Changing[_K, _V]:
        """Return a mapping that is changed without this one; it costs what has changed so far."""
        return Changing(self._shared, self._come.copy(), self._gone)

    def settled(self) -> Changing[_K, _V]:
        """Return itself, or, where much has changed, the same as a mapping to be shared."""
        much = len(self._come) + len(self._gone) > CHANGES_MAX
        return Changing(dict(self.items())) if much else self

    def __getitem__(self, key: _K) -> _V:
        """Return a value. Raises KeyError."""
        if key in self._come:
            return self._come[key]
        if key in self._gone:
            raise KeyError(key)
        return self._shared[key]

    def __setitem__(self, key: _K, value: _V) -> None:
        """Set a value."""
        if key in self._shared:
            self._gone.add(key)
        self._come[key] = value

    def __delitem__(self, key: _K) -> None:
        """Remove a key. Raises KeyError."""
        if key in self._come:
            del self._come[key]
        elif key in self._gone or key not in self._shared:
            raise KeyError(key)
        else:
            self._gone.add(key)

    def __iter__(self) -> Iterator[_K]:
        """Yield the keys."""
        yield from (key for key in self._shared if key not in self._gone)
        yield from self._come

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._shared) - len(self._gone) + len(self._come)
