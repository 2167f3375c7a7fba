"""Find files of a table that nothing names, note them, and delete them later.

Theory of operation (docs/design/0289, 0308): the storage is listed first, then the store is asked,
then the table: what was there as it was listed, and was prepared before the store was asked, is
named by the one or by the other. What nothing names is noted. Where notes of an earlier sweep are
due, the table's era is raised, so that no rearrangement lands that wrote such a file; then store
and table are asked once more.

Invariants:
- the age of a file and of a note is told by the storage's own clock;
- a table whose witnesses do not agree is left alone;
- a file is deleted only when an earlier sweep noted it, and neither the store nor the table names
  it after the era was raised;
- no live file is deleted, whatever the table's list of names says: live files are read in another
  way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from penstock.commit.maintaining import Maintenance
from penstock.core.crash_points import CrashPoint
from penstock.core.sweeps import (
    GRACE_MS,
    HORIZON_MS,
    Note,
    StoredObject,
    Sweep,
    SweepContext,
    name_of,
    noted_after,
    notes_from_json,
    notes_to_json,
    own_names,
    swept,
)
from penstock.ports.store import PendingStore
from penstock.ports.upkeep import TableStorage


@dataclass(slots=True)
class Sweeping:
    """Sweeps the files of one table; those deleted are kept in `deleted`, whatever happens then.

    No file younger than `horizon_ms` is looked at, and what was noted waits for `grace_ms`.
    """

    work: Maintenance
    store: PendingStore
    horizon_ms: int = HORIZON_MS
    grace_ms: int = GRACE_MS
    deleted: list[StoredObject] = field(default_factory=list)

    def plan(self) -> Sweep:
        """Find what nothing names, and what is due by this machine's clock; write nothing.

        Raises what `run` raises, but for what committing raises.
        """
        storage = self._storage()
        notes = notes_from_json(storage.read_notes(self.work.pipeline))
        objects = [*storage.listed()]
        return self._looked(objects, self._known(notes, self.work.context.clock.now_ms()))

    def run(self) -> Sweep:
        """Delete what is due, and note what nothing names; return what was found.

        Raises DecisionNeededError (P455 rolled back, P846), InvalidError (P891, P892, P896, P897:
        it cannot be swept), UnavailableError (P866 others commit all the time, P445 the table is
        paused, storage or store do not answer), and what committing raises.
        """
        storage = self._storage()
        notes = notes_from_json(storage.read_notes(self.work.pipeline))
        now_ms = self._note(storage, notes)
        objects = [*storage.listed()]
        known = self._known(notes, now_ms)
        found = self._looked(objects, known)
        if found.due:
            self._raise_era()
            known = self._known(notes, now_ms)
            known = replace(known, named={*known.named, *self._live()})
            found = self._looked(objects, known)
            for each in self._deleted(storage, found.due):
                self.deleted.append(each)
        self._note(storage, noted_after(found, known))
        return found

    def _storage(self) -> TableStorage:
        return self.work.table.upkeep(self.work.examined()).storage()

    def _known(self, notes: Sequence[Note], now_ms: int) -> SweepContext:
        """Ask the store first, then the table."""
        work = self.work
        pending = {
            name_of(f.path) for each in self.store.pending(work.pipeline) for f in each.files
        }
        upkeep = work.table.upkeep(work.examined())
        newest = {
            chain: commit
            for chain, commit in upkeep.newest().items()
            if chain.rpartition(".")[0].partition("/")[0] == work.pipeline
        }
        named = pending.union(upkeep.named())
        return SweepContext(named, notes, newest, now_ms, self.horizon_ms, self.grace_ms)

    def _live(self) -> Iterator[str]:
        """Yield the names of live files, as those who write them again read them."""
        for each in self.work.table.live_files(self.work.examined()):
            yield name_of(each.path)

    def _looked(self, objects: Iterable[StoredObject], known: SweepContext) -> Sweep:
        return swept(objects, own_names(self.work.pipeline), known)

    def _raise_era(self) -> None:
        """Raise the era of the table, and see that it is. Raises UnavailableError (P866)."""
        work = self.work
        before = work.table.upkeep(work.examined()).era()
        for turn in work.turns():
            upkeep = work.table.upkeep(work.examined())
            if upkeep.era() > before:
                return
            work.tried(upkeep.raise_era, turn)
        if work.table.upkeep(work.examined()).era() == before:
            raise work.given_up("no file was deleted")

    def _note(self, storage: TableStorage, notes: Sequence[Note]) -> int:
        self.work.context.observer.passed(CrashPoint.NOTE_BEFORE)
        now_ms = storage.write_notes(self.work.pipeline, notes_to_json(notes))
        self.work.context.observer.passed(CrashPoint.NOTE_AFTER)
        return now_ms

    def _deleted(
        self, storage: TableStorage, due: Iterable[StoredObject]
    ) -> Iterator[StoredObject]:
        for each in due:
            self.work.context.observer.passed(CrashPoint.DELETE_BEFORE)
            if storage.delete(each.path):
                yield each
            self.work.context.observer.passed(CrashPoint.DELETE_AFTER)
