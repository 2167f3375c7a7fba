"""The catalogs of a run: one that gave no answer is opened when it is next asked for.

One rule for a catalog that is down, at the start as in mid-run: its tables stand aside with the
error, the others land, and each try to bring a table back asks it again. A catalog that holds the
quarantine is needed by all: without it a run cannot begin (exit 75).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from penstock.core.errors import UnavailableError
from penstock.ports.tables import TableFormat


class AwaitedCatalogs(Mapping[str, TableFormat]):
    """Catalogs by name. To ask for one that gives no answer raises UnavailableError."""

    def __init__(self, opening: Mapping[str, Callable[[], TableFormat]]) -> None:
        self._opening = opening
        self._opened: dict[str, TableFormat] = {}

    def __getitem__(self, name: str) -> TableFormat:
        if name not in self._opened:
            self._opened[name] = self._opening[name]()
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._opening)

    def __len__(self) -> int:
        return len(self._opening)

    def check(self) -> None:
        """Open all and prove that they may be written; those without an answer are left for later.

        Raises InvalidError for settings and permissions that are at fault.
        """
        for name in self:
            with suppress(UnavailableError):
                self[name].check()

    def close(self) -> None:
        """Let go of the connections of those that were opened."""
        for catalog in self._opened.values():
            catalog.close()
