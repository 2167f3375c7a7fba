"""The upkeep of a table in memory: expiry, its era, and the files that its snapshots name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.connectors.memory.ledger import require_vouched
from penstock.connectors.memory.warehouse import START_MS, Contents, Warehouse
from penstock.connectors.memory.warehouse import Snapshot as StoredSnapshot
from penstock.core.expiry import Branch, Expiry, Snapshot, plan_expiry
from penstock.core.serialization import ledger_from_json
from penstock.core.sweeps import StoredObject, name_of
from penstock.ports.rearrangements import Rearrangement


@dataclass(frozen=True, slots=True)
class MemoryUpkeep:
    """Implements `ports.upkeep.Upkeep`; snapshots of more than an hour expire."""

    _warehouse: Warehouse = field(repr=False)
    name: str
    _contents: Contents = field(repr=False)

    def stage(self, rearrangements: Sequence[Rearrangement]) -> None:
        """Write nothing: a rearrangement is one entry."""
        del rearrangements

    def expiry(self, now_ms: int) -> Expiry:
        """Plan which snapshots expire. Raises DecisionNeededError (P846)."""
        contents = self._contents
        require_vouched(self.name, contents)
        if contents.head is None:
            return Expiry()
        snapshots = [Snapshot(s.id, s.parent, s.timestamp_ms) for s in contents.snapshots.values()]
        branch = Branch("main", contents.head, 1, 0, frozenset(_evidence(contents)))
        return plan_expiry(snapshots, [branch], contents.tags, age_ms=0, now_ms=now_ms)

    def expire(self, expiry: Expiry) -> None:
        """Remove snapshots, if the table is as it was examined."""
        base = self._contents
        gone = {each.id for each in expiry.expired}
        kept = {i: each for i, each in base.snapshots.items() if i not in gone}
        self._warehouse.get(self.name).apply(base, replace(base, snapshots=kept))

    def era(self) -> int:
        """Return the era of the table."""
        contents = self._contents
        return contents.era

    def raise_era(self) -> str:
        """Raise the era with a snapshot that changes nothing."""
        base = self._contents
        require_vouched(self.name, base)
        number = self._warehouse.number()
        moved = StoredSnapshot(
            f"s{number}",
            base.head,
            START_MS + number,
            base.files,
            None,
            base.deleted,
            base.ledgers,
        )
        changed = replace(base.with_snapshot(moved), era=base.era + 1)
        self._warehouse.get(self.name).apply(base, changed)
        return moved.id

    def named(self) -> Collection[str]:
        """Return the names of the files of all snapshots."""
        contents = self._contents
        return {name_of(f.path) for each in contents.snapshots.values() for f in each.files}

    def newest(self) -> Mapping[str, str]:
        """Return the newest commits of all chains."""
        contents = self._contents
        ledgers = {name: ledger_from_json(text) for name, text in contents.ledgers.items()}
        return {
            f"{name}.main": each.recent[-1][0] if each.recent else ""
            for name, each in ledgers.items()
        }

    def storage(self) -> MemoryStorage:
        """Open the files that were written for the table. Raises DecisionNeededError (P846)."""
        require_vouched(self.name, self._contents)
        return MemoryStorage(self._warehouse, self.name)


def _evidence(contents: Contents) -> Iterator[str]:
    """Yield all from the head to where each chain is judged, or one snapshot vouches for all."""
    unseen = {*contents.ledgers}
    for each in contents.ancestry():
        if not unseen:
            return
        yield each.id
        unseen -= {each.commit.chain.name} if each.commit else set()
        if each.vouches == contents.ledgers:
            return


@dataclass(frozen=True, slots=True)
class MemoryStorage:
    """Implements `ports.upkeep.TableStorage`."""

    _warehouse: Warehouse = field(repr=False)
    name: str

    def listed(self) -> Iterator[StoredObject]:
        """List all files."""
        yield from self._warehouse.stored(self.name)

    def delete(self, path: str) -> bool:
        """Delete a file."""
        return self._warehouse.delete_file(path)

    def read_notes(self, pipeline: str) -> str:
        """Return the notes of a pipeline."""
        return self._warehouse.notes.get((self.name, pipeline), "")

    def write_notes(self, pipeline: str, text: str) -> int:
        """Write the notes of a pipeline."""
        self._warehouse.notes[self.name, pipeline] = text
        return self._warehouse.now_ms()
