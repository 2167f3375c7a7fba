"""The catalogs of a spec, opened on first use: an error of one does not affect the others.

One rule for a catalog that is down, at the start as in mid-run: its tables are parked with the
error, the others land, and each try to bring a table back asks it again. A catalog that holds the
quarantine is needed by all: without it a run cannot begin (exit 75). A command that only reads asks
once: it does not wait for a silent catalog again for each of its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from penstock.core.errors import PenstockError, UnavailableError
from penstock.ports.tables import TableFormat


class LazyCatalogs(Mapping[str, TableFormat]):
    """Catalogs by name. To ask for one raises what opening it raises.

    With `asks_once` it fails again as it failed first, without asking again.
    """

    def __init__(
        self, opening: Mapping[str, Callable[[], TableFormat]], *, asks_once: bool = False
    ) -> None:
        self._opening = opening
        self._asks_once = asks_once
        self._opened: dict[str, TableFormat] = {}
        self._failed: dict[str, PenstockError] = {}

    def __getitem__(self, name: str) -> TableFormat:
        if name in self._failed:
            raise self._failed[name]
        if name not in self._opened:
            try:
                self._opened[name] = self._opening[name]()
            except PenstockError as error:
                if self._asks_once:
                    self._failed[name] = error
                raise
        return self._opened[name]

    def __contains__(self, name: object) -> bool:
        return name in self._opening

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
