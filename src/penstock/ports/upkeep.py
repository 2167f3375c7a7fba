"""What keeps a table small: snapshots expire, and files that nothing names are found and deleted.

Rules that every implementation keeps, and the contract suite checks (docs/design/0289, 0308):
- an expiry takes nothing away that a branch, a tag or a ledger needs, and is refused where one of
  them has moved since;
- no file goes that the table names, in whatever snapshot its metadata has;
- the era of a table only grows, and a request that was built before it was raised never lands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from penstock.core.expiry import Expiry
from penstock.core.sweeps import StoredObject
from penstock.ports.rearrangements import Rearrangement


class TableStorage(Protocol):
    """The directories of a table's files, and a place for notes next to them."""

    def listed(self) -> Iterator[StoredObject]:
        """List all files. Raises InvalidError (P891 another table's are there as well),
        UnavailableError.
        """

    def delete(self, path: str) -> bool:
        """Delete a file; return whether it was there. Raises UnavailableError."""

    def read_notes(self, pipeline: str) -> str:
        """Return the notes of a pipeline, "" for none. Raises UnavailableError."""

    def write_notes(self, pipeline: str, text: str) -> int:
        """Write the notes of a pipeline; return the time by the storage's own clock, in ms.

        Raises UnavailableError.
        """


class Upkeep(Protocol):
    """The upkeep of one table, as it was in an examined state."""

    def stage(self, rearrangements: Sequence[Rearrangement]) -> None:
        """Write what of rearrangements depends on no state, so that `Table.rearrange` takes less.

        Raises as `Table.rearrange`, but for what sending raises.
        """

    def expiry(self, now_ms: int) -> Expiry:
        """Plan which snapshots expire. Raises DecisionNeededError (P846), UnavailableError."""

    def expire(self, expiry: Expiry) -> None:
        """Remove snapshots from the metadata, in one compare-and-set on the state.

        Raises as `Table.commit`.
        """

    def era(self) -> int:
        """Return the era of the table: how many times it was raised."""

    def raise_era(self) -> str:
        """Raise the era in one compare-and-set on the state; return the snapshot.

        It vouches for the ledgers as a rearrangement does. Raises as `Table.rearrange`.
        """

    def named(self) -> Collection[str]:
        """Return the last parts of the paths of all files that the metadata names.

        Raises UnavailableError, InvalidError.
        """

    def newest(self) -> Mapping[str, str]:
        """Return the newest commits of the chains of all branches, by chain and branch."""

    def storage(self) -> TableStorage:
        """Open where the table's files are.

        Raises InvalidError (P892 they cannot be swept, P896 its catalog is behind its files, P897
        files of others may be there), DecisionNeededError (P846), and as `TableStorage.listed`.
        """
