"""Tables: examined, created and committed by the driver.

Rules of protocol.md 3 and 5 that every implementation keeps, and the contract suite checks:
- `Table.state` reads fresh; `Table.commit` makes ONE attempt on exactly the state it was given;
- files and ledger become visible together or not at all;
- ConflictError means certainly not applied, OutcomeUnknownError means find out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from penstock.core.commits import Chain, Committable, DataFile, Landed
from penstock.core.demands import NO_DEMANDS, Demands
from penstock.core.file_ranges import FileRanges
from penstock.core.maintenance import Layout
from penstock.core.schema import Schema
from penstock.core.statistics import FileStatistics, Mismatch
from penstock.ports.histories import CommitsBehind, History
from penstock.ports.increments import ReadableFiles
from penstock.ports.leases import Lease
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.row_deletes import LiveFile, RowDeleteMode, RowDeletes, RowPositions, Sought
from penstock.ports.upkeep import Upkeep

if TYPE_CHECKING:
    import pyarrow as pa


ColumnPath = tuple[str, ...]


class Verdict(StrEnum):
    """How the witnesses of a chain agree (protocol.md 3)."""

    AGREED = "agreed"
    ABSENT = "absent"
    ROLLED_BACK = "rolled back"
    UNCERTAIN = "uncertain"

    @property
    def is_sound(self) -> bool:
        """Return whether a chain may go on: not where it was rolled back, or nobody can tell."""
        return self not in {Verdict.ROLLED_BACK, Verdict.UNCERTAIN}


@dataclass(frozen=True, slots=True)
class TableState:
    """One consistent reading of a table, for one chain.

    `landed` is None exactly when the verdict is ABSENT. `target` is versioned JSON for the
    connector's own FileWriter (location, field ids, partition spec, write properties). It holds
    references to secrets, never secrets, but for credentials on a `lease`; it is neither shown nor
    kept. `handle` is the connector's own and goes back to `commit` untouched. `not_empty` are
    string columns in which the format cannot hold an empty value: such records are quarantined.
    `can_widen` says whether columns may be given wider types, and made optional; `identifiers`,
    columns by dotted path, never are optional. `reserved` are names that no column of it may be
    given. `least` are the least values of columns, by their path through structs, that the table
    has a partition for: records with a lower one are quarantined. `demands` are what it asks of
    rows beyond the types of its columns. `row_ids` are columns beside the schema by which readers
    follow rows, of any file that is live: who writes rows again reads them by these names, and
    writes them with the rows (`Placing.row_ids`). `other_names` are the columns that names which
    are not theirs stand for, by the path of the struct that they are in ("" at the top, `items[]`
    within a list, `prices{}` a map); None where the table says none.
    """

    uuid: str
    head: str
    schema: Schema
    schema_id: int
    landed: Landed | None
    verdict: Verdict
    evidence: str
    target: str = field(repr=False)
    handle: Any = field(repr=False, compare=False)
    not_empty: tuple[str, ...] = ()
    lease: Lease | None = None
    can_widen: bool = False
    identifiers: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    least: Mapping[ColumnPath, Decimal] = field(default_factory=dict)
    demands: Demands = NO_DEMANDS
    row_ids: tuple[str, ...] = ()
    other_names: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None


def not_created(schema: Schema) -> TableState:
    """Return the state of a table that is not there yet."""
    return TableState("", "", schema, 0, None, Verdict.ABSENT, "not created yet", "", None)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Facts of a table for users: `format` in words, with the features it uses.

    `kept` counts what a commit or a reader goes through each time: snapshots (Iceberg), versions
    since the last checkpoint (Delta), and `kept_what` names it. `stored_ms` is when the storage
    says the newest metadata was written, by its own clock, where known. `rows` is how many rows
    the table holds, by any writer, and `files` how many data files; None where its metadata alone
    do not show it.
    """

    format: str
    history_length: int
    kept_what: str
    stored_ms: int | None = None
    rows: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """Describe a table to create; partitioning as text: `day(ts)`, `bucket(16, id)`, `country`.

    `sort_by` is written likewise, perhaps with `desc` after it. `identifier_fields` become
    required columns. Formats without the one or the other refuse it (P434). `keys` say by which
    columns its rows will be replaced and deleted, and `row_deletes` how: then it is made so that
    they can be.
    """

    schema: Schema
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    identifier_fields: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    row_deletes: RowDeleteMode = RowDeleteMode.AUTO


@dataclass(frozen=True, slots=True)
class FileSource:
    """Where the rows of one live file came from, by its source columns.

    The path is the file as a `Committable.removes` names it. `altered`: rows of it were deleted by
    delete files or vectors, and would come back with a new file.
    """

    found: FileRanges
    altered: bool = False


@dataclass(frozen=True, slots=True)
class StatedFile:
    """What metadata says about one live data file, and how to open it for reading.

    `open` returns a seekable file, and raises OSError (FileNotFoundError where there is none).
    """

    statistics: FileStatistics
    open: Callable[[], Any] = field(repr=False, compare=False)


class Table(Protocol):
    """One table of one catalog, on the driver."""

    name: str

    def state(self, chain: Chain) -> TableState:
        """Read the table afresh. Raises UnavailableError (not there, no catalog), InvalidError
        (a feature that cannot be honoured, by name).
        """

    def commit(
        self,
        state: TableState,
        commit: Committable,
        *,
        retain: int,
        row_deletes: Sequence[RowDeletes] = (),
    ) -> str:
        """Land files, progress and ledger in one compare-and-set on `state`; return the snapshot.

        The new ledger is `landed_after(state.landed, commit)`; for a chain without a ledger, the
        commit's origins are the first one. Own snapshots beyond `retain` are trimmed in the same
        act where the format allows. A FENCE on a ROLLED_BACK state moves the head and leaves the
        ledger as it is; a SEEK is what ends that verdict. A REPLACE takes the files in `removes`
        away in the same act; where one of them is not live in `state` nothing is applied
        (`FILES_REJECTED`). `row_deletes`, of a ROW_DELTA or a PURGE, were found on `state`; a file
        of which they leave no row, or that was rewritten, goes as well. Raises ConflictError,
        OutcomeUnknownError, UnavailableError, InvalidError; BugError (P707) when a row delete is
        not of a live row, or a file was rewritten to more or fewer rows than stay.
        """

    def require_row_deletes(
        self, state: TableState, mode: RowDeleteMode = RowDeleteMode.AUTO
    ) -> None:
        """Refuse a table of which no row may be deleted in a mode, by its metadata alone.

        Raises InvalidError (P436), UnavailableError.
        """

    def live_files(self, state: TableState) -> Sequence[LiveFile]:
        """List the live data files of a state. Raises UnavailableError, InvalidError (P436 with
        equality deletes: live rows cannot be determined).
        """

    def layout(self, state: TableState) -> Layout:
        """List how the live data files of a state lie, by its metadata. Raises as `live_files`."""

    def require_rearrangeable(self, state: TableState) -> None:
        """Refuse a table of which no file may take the place of others now.

        Raises DecisionNeededError (P846 no digest, summary or whole log vouches for a chain of it,
        of whatever pipeline), UnavailableError.
        """

    def delete_states(self, state: TableState, paths: Collection[str]) -> Mapping[str, str]:
        """Return the delete states of those files that are live. Raises as `live_files`."""

    def deleted_rows(self, state: TableState, path: str) -> RowPositions:
        """Return which rows of a live file are deleted, ascending. Raises as `read_live`."""

    def readable(self, state: TableState, paths: Sequence[str]) -> ReadableFiles:
        """Return how workers read live files without deleted rows. Raises as `read_live`."""

    def rearrange(self, state: TableState, rearrangements: Sequence[Rearrangement]) -> str:
        """Put files in the place of live ones with the same rows; return the snapshot.

        It is one compare-and-set on `state`, moves no position and no ledger, vouches for all of
        them, and is no change to readers of changes. Raises as `commit` and
        `require_rearrangeable`; BugError (P848) when a file is not live with exactly the row
        deletes that were looked at, P707 when row deletes are of none of its files.
        """

    def upkeep(self, state: TableState) -> Upkeep:
        """Return what lets snapshots expire, and finds files that nothing names, in a state."""

    def read_live(
        self,
        state: TableState,
        file: LiveFile,
        columns: Sequence[str],
        sought: Sought | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of the rows of a file that are not deleted in a state, in order; the last
        column, `POSITION`, is each row's place in the file, from 0. Columns have the table's types
        as its format has them in Arrow, UUIDs perhaps an extension type. With `sought` only of the
        rows that it returns of batches of those columns; it sees deleted rows as well.

        Raises UnavailableError, InvalidError (P435 a column is not there).
        """

    def read_written(
        self, state: TableState, file: DataFile, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of all rows of a file that was written for the table and has not landed, as
        `read_live` reads those of one that has. Raises what it raises, and InvalidError (P439).
        """

    def evolve(self, state: TableState, schema: Schema) -> None:
        """Make a wider schema (rows/schema/evolution.py) the table's in one compare-and-set on
        `state`.

        Raises ConflictError, OutcomeUnknownError, UnavailableError, InvalidError (P431 refused,
        P435 a type or name the format cannot hold, P468 a change the format cannot make).
        """

    def missing_files(self, files: Sequence[DataFile]) -> Sequence[str]:
        """List the paths that are not on storage with the size described."""

    def history(self, chain: Chain, state: TableState | None = None) -> History:
        """Read what the audit needs, as it was in `state`, else afresh. Raises UnavailableError."""

    def commits(self, chain: Chain, state: TableState, behind: str = "") -> CommitsBehind:
        """List the chain's commits of a state behind a snapshot, "" for all that are listed.

        No file and no manifest is read. Raises UnavailableError.
        """

    def quarantined(
        self, chain: Chain, ranges: Sequence[Sequence[Any]]
    ) -> Sequence[tuple[str, int, int]]:
        """For a quarantine table: the coordinates (topic id, partition, offset) already in it for
        the chain's table within JSON ranges `[topic id, partition, topic, start, stop]`.
        """

    def read_quarantine(
        self,
        chain: Chain,
        columns: Sequence[str],
        ranges: Sequence[Sequence[Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """For a quarantine table: read columns of the rows of a chain's table, in any order.

        The chain `<pipeline>/*` means all tables of a pipeline. With `ranges`, as above, rows
        outside of them may be left out. Raises UnavailableError, InvalidError (P435 a column is not
        there), also while it is read.
        """

    def row_coordinates(
        self,
        columns: Mapping[str, str],
        state: TableState | None = None,
        offsets: pa.Array | None = None,
    ) -> pa.Table:
        """Read every live row's source coordinates: `topic: string, partition: int32, offset:
        int64`, in any order, duplicates kept. `columns` maps those three names to the table's
        columns. The rows are those of `state`, else read afresh. With `offsets`, only rows at one
        of them are given, and no more than a file, or a batch of it, is held meanwhile. Reads data
        files.
        """

    def file_sources(
        self, state: TableState, columns: Mapping[str, str], ends: Mapping[tuple[str, int], int]
    ) -> Sequence[FileSource]:
        """Return which files of a state hold rows from an offset on, by topic name and partition.

        `columns` maps `topic`, `partition`, `offset` to the table's columns. Files that hold no
        such row may be listed as well, or left out; each listed file is read. Raises
        UnavailableError, InvalidError (P435 columns, P436 what this table cannot report).
        """

    def stated(self) -> Iterator[StatedFile | Mismatch]:
        """Return what metadata says about each live data file, read afresh, and where it disagrees
        with itself; features that Penstock cannot write are no hindrance. Raises
        UnavailableError, InvalidError, also while it is read.
        """

    def ledgers(self, state: TableState) -> Sequence[Landed]:
        """Return the ledgers of all chains in a state, other pipelines' as well. Raises
        UnavailableError, InvalidError (P190, P191 one cannot be read).
        """

    def describe(self) -> TableFacts:
        """Return what people want to know about it. Raises UnavailableError, InvalidError."""

    def housekeep(self) -> None:
        """Do what may fail without harm after a commit, out of band (checkpoints, old metadata)."""


class TableFormat(Protocol):
    """One catalog of the spec, on the driver."""

    def load(self, name: str) -> Table | None:
        """Find a table by its name within the catalog (`bronze.orders`); None when there is none.

        Raises UnavailableError when the catalog does not answer, InvalidError when something else
        has its name.
        """

    def create(self, name: str, definition: TableDefinition, ledgers: Sequence[Landed]) -> Table:
        """Create a table together with its ledgers; return the existing one if another was first.

        Raises InvalidError (hostile name, unwritable place, unsupported partitioning or type).
        """

    def require_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Refuse properties that no new table can have; nothing is asked or written.

        Raises InvalidError, as `create` does for them.
        """

    def preview(self, name: str, definition: TableDefinition) -> TableState:
        """Return the state of the table that `create` would make, as far as it decides which
        records fit: `schema`, `not_empty`, `can_widen`, `identifiers`, `reserved`, `least`.

        Nothing is written, and no server is asked. Raises InvalidError, as `create` does, for a
        name or definition that no new table can have, and a place on this machine that cannot be
        made.
        """

    def names(self, namespace: str) -> Sequence[str]:
        """List the tables in a namespace by the names that `load` takes; none when it is not there.

        What `load` refuses may be among them. Raises UnavailableError.
        """

    def discard(self, name: str) -> None:
        """Drop a scratch table, known by its name (core/scratch.py), with all its files.

        Nothing happens when it is not there. Raises BugError (P705) for the name of any other
        table, InvalidError, UnavailableError.
        """

    def check(self) -> None:
        """Prove that it answers and may be written. Raises InvalidError, UnavailableError."""

    def close(self) -> None:
        """Let go of connections."""
