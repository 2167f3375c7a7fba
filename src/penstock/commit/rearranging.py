"""Write files of a table again as fewer, and put these in their place, beside whoever lands.

Theory of operation: all that takes long comes before the commit. The groups of a plan are written
in bundles, as many at once as the engine has room for, on a state that was read for them, with its
row deletes applied. What the metadata needs is staged as far as it depends on no state. Then the
table is examined again, and what is still there lands in one compare-and-set, with the rows deleted
that were deleted meanwhile; the rest is given up, and a new plan finds it again (docs/design/0291,
0312).

Invariants:
- what was written has the rows that were read, counted and summed up by a hash of all columns, as
  it is read back, and as many as live in the files by the table; else nothing is committed;
- whoever lands meanwhile wins: a rearrangement is tried a few times, and then given up;
- it claims nothing, so that anybody may make it, and a lost answer is found out by the files: they
  are live, or the rearrangement has not landed;
- a sweep that may delete what was written raises the table's era before: then it does not land;
- nothing is ever deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from penstock.commit.copying import CopyJob, job_to_json, result_from_json
from penstock.commit.maintaining import Maintenance, require_sound
from penstock.commit.moved_rows import CopiedFile, MovedRows
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import BugError, InvalidError, UnavailableError
from penstock.core.events import WaitBegan
from penstock.core.maintenance import INPUTS_MAX, FileGroup, Layout, groups_of
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.row_deletes import LiveFile
from penstock.ports.runtime import Engine
from penstock.ports.tables import Table, TableState

ROUNDS_MAX = 3
"""How many plans are made: the first, and others for what was given up."""
PLACES_MAX = 16_000_000
"""Of how many rows jobs say where they went, where they changed their order: 5 bytes for each go
through the driver, which takes 128 MB of an engine at once.
"""


@dataclass(frozen=True, slots=True)
class RearrangedFiles:
    """What maintenance did to a table: `groups` landed, in which files became fewer.

    `deleted` rows were dropped, `carried` others were deleted while they were written again.
    `given_up` counts how many times a group was written and could not land, or had moved before.
    """

    groups: int = 0
    files_before: int = 0
    files_after: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    deleted: int = 0
    carried: int = 0
    commits: int = 0
    given_up: int = 0


@dataclass(slots=True)
class Rearranging:
    """Writes files of one table again, by jobs of an engine (`copying.py`); the attempt of its
    `work` begins their names, and `connector` opens writers and readers on workers.

    With `sorts` rows are sorted by the table's order, but for those of a keyed table: its files are
    sorted by key.
    """

    work: Maintenance
    engine: Engine
    connector: str
    sorts: bool = True
    done: RearrangedFiles = field(default_factory=RearrangedFiles)

    def run(self) -> RearrangedFiles:
        """Carry out the plan of the table; return what was done.

        Raises UnavailableError (P866 others commit all the time, P445 the table is paused),
        DecisionNeededError (P455 rolled back, P846), BugError (P847), and what reading, writing and
        committing raise.
        """
        for _ in range(ROUNDS_MAX):
            layout = self.work.table.layout(self._examined())
            groups = groups_of(layout)
            given_up = self.done.given_up
            left = bundles = [*_bundles(groups, layout)]
            while left:
                place = f", part {len(bundles) - len(left) + 1} of {len(bundles)}"
                part = place if len(bundles) > 1 else ""
                what = f"files of {self.work.chain.table} to be written again{part}"
                self.work.context.observer(WaitBegan(what))
                at_once = self.engine.capacity()  # executors come and go
                self._carry_out(left[:at_once])
                left = left[at_once:]
            if self.done.given_up == given_up:
                return self.done
        raise UnavailableError(
            f"{self.work.chain.table}: others changed files while they were written again, in "
            f"{ROUNDS_MAX} plans one after another; {self.done.groups} groups are done",
            code="P866",
            hint="try again when less is committed; what was done stays done",
        )

    def _examined(self) -> TableState:
        state = self.work.examined()
        self.work.table.require_rearrangeable(state)
        return state

    def _carry_out(self, bundles: Sequence[Sequence[FileGroup]]) -> None:
        """Let a job write the groups of each bundle, and land those that are as they were."""
        self.work.require_not_paused()
        state = self._examined()
        era = self.work.table.upkeep(state).era()
        live = {each.path: each for each in self.work.table.live_files(state)}
        found = [
            [
                [live[each.path] for each in group.files]
                for group in bundle
                if all(each.path in live for each in group.files)
            ]
            for bundle in bundles
        ]
        written = self._written(state, [bundle for bundle in found if bundle])
        self.work.context.observer.passed(CrashPoint.FILES_REWRITTEN)
        landed = self._land(written, state, era) if written else ()
        self._count(landed, live, sum(map(len, bundles)) - len(landed))

    def _written(
        self, state: TableState, bundles: Sequence[Sequence[Sequence[LiveFile]]]
    ) -> Sequence[MovedRows]:
        """Let the engine write the live rows of groups again, a job for each bundle of them."""
        results = self.engine.run([job_to_json(self._job(state, each)) for each in bundles])
        found = [group for text in results for group in result_from_json(text)]
        groups = [group for bundle in bundles for group in bundle]
        moved = [
            MovedRows(
                [self._source(state, each) for each in files], new.files, new.places, self._prefix
            )
            for files, new in zip(groups, found, strict=True)
        ]
        for each in moved:
            self._require_all(each)
        return moved

    def _require_all(self, moved: MovedRows) -> None:
        """Raise BugError (P847) where files have other rows than the table says that live in them.

        A worker compares what it wrote with what it read: of rows that it never read it knows
        nothing.
        """
        live = sum(each.rows_copied for each in moved.sources)
        written = sum(each.record_count for each in moved.files)
        if live != written:
            paths = ", ".join(each.path for each in moved.sources[:3])
            raise BugError(
                f"{self.work.chain.table}: of {live} rows that live in files, {written} were "
                f"written again; of {len(moved.sources)} files, {paths} first",
                code="P847",
                hint="nothing was committed; report this with the log",
            )

    def _job(self, state: TableState, bundle: Sequence[Sequence[LiveFile]]) -> CopyJob:
        paths = [file.path for group in bundle for file in group]
        readable = self.work.table.readable(state, paths)
        details = iter(readable.details)
        return CopyJob(
            self.work.chain.table,
            self.connector,
            state.target,
            self._prefix,
            self.sorts and not self._is_keyed(state),
            state.row_ids,
            readable.work,
            tuple(tuple(islice(details, len(group))) for group in bundle),
            PLACES_MAX // self.engine.capacity(),
        )

    @property
    def _prefix(self) -> str:
        return f"{self.work.chain.name.replace('/', '-')}-maintenance-{self.work.attempt}"

    def _source(self, state: TableState, file: LiveFile) -> CopiedFile:
        deleted = self.work.table.deleted_rows(state, file.path)
        return CopiedFile(file.path, file.rows, file.delete_state, deleted)

    def _is_keyed(self, state: TableState) -> bool:
        return any(each.keyed for each in self.work.table.ledgers(state))

    def _land(
        self, written: Sequence[MovedRows], begun: TableState, era: int
    ) -> Sequence[Rearrangement]:
        """Land those that still fit; return them.

        None lands in another era than that in which its files were begun: they may be deleted; nor
        where rows have been given ids since, which it would lose.
        """
        shape = begun.schema_id, begun.row_ids
        sent: Sequence[Rearrangement] = ()
        for turn in self.work.turns():
            if not sent:
                self._stage(written)
            state, found = self._looked_at(written)
            if sent and all(_has_landed(each, found) for each in sent):
                return sent
            fits = self._fitting(written, state, found)
            is_former = self.work.table.upkeep(state).era() != era
            if not fits or is_former or (state.schema_id, state.row_ids) != shape:
                return ()
            rearrange = partial(self.work.table.rearrange, state, fits)
            if self.work.tried(rearrange, turn):
                sent = fits
        _, found = self._looked_at(written)
        return sent if all(_has_landed(each, found) for each in sent) else ()

    def _stage(self, written: Sequence[MovedRows]) -> None:
        """Write what takes long and depends on no state: whoever lands meanwhile costs nothing."""
        self.work.require_not_paused()
        state, found = self._looked_at(written)
        if fits := self._fitting(written, state, found):
            self.work.table.upkeep(state).stage(fits)

    def _fitting(
        self, written: Sequence[MovedRows], state: TableState, found: Mapping[str, str]
    ) -> Sequence[Rearrangement]:
        """Return those that may land on a state."""
        deleted_in = partial(self.work.table.deleted_rows, state)
        fitted = (each.fitted(found, deleted_in) for each in written)
        return [each for each in fitted if each is not None and self._takes(state, each)]

    def _takes(self, state: TableState, fitted: Rearrangement) -> bool:
        """Return whether rows that were deleted meanwhile may come deleted in the table."""
        try:
            if fitted.row_deletes:
                self.work.table.require_row_deletes(state)
        except InvalidError:
            return False
        return True

    def _looked_at(self, written: Sequence[MovedRows]) -> tuple[TableState, Mapping[str, str]]:
        """Read the table, and which of the files, old and new, are live."""
        state = self._examined()
        return state, self.work.table.delete_states(state, {*_paths_of(written)})

    def _count(
        self, landed: Sequence[Rearrangement], read: Mapping[str, LiveFile], given_up: int
    ) -> None:
        before = [read[path] for each in landed for path in each.replaced]
        after = [file for each in landed for file in each.files]
        done = self.done
        self.done = RearrangedFiles(
            groups=done.groups + len(landed),
            files_before=done.files_before + len(before),
            files_after=done.files_after + len(after),
            read_bytes=done.read_bytes + sum(each.size_bytes for each in before),
            written_bytes=done.written_bytes + sum(each.size_bytes for each in after),
            deleted=done.deleted + sum(each.deleted for each in landed),
            carried=done.carried + sum(each.carried for each in landed),
            commits=done.commits + bool(landed),
            given_up=done.given_up + given_up,
        )


def require_maintainable(chain: Chain, table: Table, state: TableState) -> None:
    """Refuse a table whose files may be somebody's evidence, or have to stay as they are.

    Raises DecisionNeededError (P455 rolled back, P846).
    """
    require_sound(chain, state)
    table.require_rearrangeable(state)


def _bundles(groups: Sequence[FileGroup], layout: Layout) -> Iterator[Sequence[FileGroup]]:
    """Yield groups that land together: about one full file, or as many inputs as a group has."""
    bundle: list[FileGroup] = []
    files = size_bytes = 0
    for each in groups:
        files, size_bytes = files + len(each.files), size_bytes + each.live_bytes
        if bundle and (files > INPUTS_MAX or size_bytes > layout.target_bytes):
            yield bundle
            bundle, files, size_bytes = [], len(each.files), each.live_bytes
        bundle.append(each)
    if bundle:
        yield bundle


def _paths_of(written: Iterable[MovedRows]) -> Iterator[str]:
    for each in written:
        yield from (file.path for file in each.sources)
        yield from (file.path for file in each.files)


def _has_landed(written: Rearrangement, found: Mapping[str, str]) -> bool:
    """Return whether its files are in the place of those that it replaces."""
    new = all(file.path in found for file in written.files)
    return new and found.keys().isdisjoint(written.replaced)
