"""The upkeep of one Delta table: its era, and the files that its log names.

Versions expire by the table's own properties: whoever writes a checkpoint cleans up the log, by the
times of its files, as Spark does. What is left is to delete what the log names no longer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.connectors.delta.errors import reading
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.log import ledger
from penstock.connectors.delta.log.entries import Actions
from penstock.connectors.delta.log.tail import LogTail, LogView
from penstock.connectors.delta.read.live_files import named_at
from penstock.connectors.delta.rearrange import new_era, proven
from penstock.core.expiry import Expiry
from penstock.core.sweeps import name_of
from penstock.files.storage_settings import path_in
from penstock.files.table_storage import DirectoryStorage
from penstock.ports.rearrangements import Rearrangement

_LOG = "/_delta_log/"


_CHECKPOINT_EVERY = 100


def housekeep(following: LogTail) -> None:
    """Write a checkpoint where one is due, and clean up the log, as the table's properties say.

    A checkpoint of deltalake keeps domains, row ids and clustering (docs/design/0351).
    Raises UnavailableError, InvalidError (P438).
    """
    view = following.last()
    interval = view.form.configuration.get("delta.checkpointInterval", "")
    every = int(interval) if interval.isdecimal() else _CHECKPOINT_EVERY
    if view.version - view.checkpointed < max(every, 1):
        return
    handle = following.handle(view)
    with reading(following.name):
        handle.create_checkpoint()
        cleans = view.form.configuration.get("delta.enableExpiredLogCleanup", "true")
        if cleans.lower() == "true":
            handle.cleanup_metadata()


@dataclass(frozen=True, slots=True)
class DeltaUpkeep:
    """Implements `ports.upkeep.Upkeep`; `put` puts an entry as the version after the view."""

    name: str
    root: StorageRoot
    following: LogTail = field(repr=False)
    view: LogView = field(repr=False)
    put: Callable[[Actions], None] = field(repr=False)

    def stage(self, rearrangements: Sequence[Rearrangement]) -> None:
        """Write nothing: a rearrangement is one entry."""
        del rearrangements

    def expiry(self, now_ms: int) -> Expiry:
        """Return that nothing expires here."""
        del now_ms
        return Expiry(unwanted="versions of Delta expire by delta.logRetentionDuration")

    def expire(self, expiry: Expiry) -> None:
        """Do nothing, for nothing was planned."""
        assert not expiry.expired, "no version of Delta expires by request"

    def era(self) -> int:
        """Return the era of the table."""
        view = self.view
        return view.transactions.get(ledger.ERA, 0)

    def raise_era(self) -> str:
        """Raise the era with an entry that changes nothing. Raises DecisionNeededError (P846)."""
        view = proven(self.following, self.view)
        self.put(new_era(view))
        return str(view.version + 1)

    def named(self) -> Collection[str]:
        """Return the names of live files, and of those whose tombstone the log still has."""
        view = self.view
        with reading(self.name):
            return {*map(name_of, named_at(self.following.log, view.version))}

    def newest(self) -> Mapping[str, str]:
        """Return the sequences of all chains."""
        known: Mapping[str, int] = self.view.transactions
        return {
            f"{chain}.main": str(known.get(ledger.app_id(chain, ledger.SEQUENCE), ""))
            for chain in ledger.chains_in(known)
        }

    def storage(self) -> DirectoryStorage:
        """Open the table's directory. Raises DecisionNeededError (P846)."""
        proven(self.following, self.view)
        place = path_in(self.root.location(self.name))
        own = f"{place}{_LOG}"

        def of_others(path: str) -> bool:
            return _LOG in path and not path.startswith(own)

        with reading(self.name):
            return DirectoryStorage(self.name, self.root.filesystem(), place, (place,), of_others)
