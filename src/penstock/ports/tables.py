"""Tables: examined, created and committed by the driver, written to by the workers.

Rules of protocol.md 3 and 5 that every implementation keeps, and the contract suite checks:
- `Table.state` reads fresh; `Table.commit` makes ONE attempt on exactly the state it was given;
- files and ledger become visible together or not at all;
- ConflictError means certainly not applied, OutcomeUnknownError means find out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from penstock.core.commits import Chain, Committable, DataFile, Landed
from penstock.core.file_ranges import FileRanges
from penstock.core.offsets import Positions
from penstock.core.schema import Schema
from penstock.core.statistics import FileStatistics, Mismatch

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.ports.runtime import Observer, Secrets


ColumnPath = tuple[str, ...]


class Verdict(StrEnum):
    """How the witnesses of a chain agree (protocol.md 3)."""

    AGREED = "agreed"
    ABSENT = "absent"
    ROLLED_BACK = "rolled back"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Lease:
    """Credentials that a catalog vends for one table: part of the target, and they expire.

    From when `is_due` says so, `renew` is to be called before further work is handed out. It gives
    the target with credentials of its own, all else as it was, and the next lease; it raises
    UnavailableError and InvalidError. The catalog keeps the time, so no two clocks are compared.
    """

    is_due: Callable[[], bool] = field(repr=False)
    renew: Callable[[], tuple[str, Lease | None]] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TableState:
    """One consistent reading of a table, for one chain.

    `landed` is None exactly when the verdict is ABSENT. `target` is versioned JSON for the
    connector's own FileWriter (location, field ids, partition spec, write properties). It holds
    references to secrets, never secrets, but for credentials on a `lease`; it is neither shown nor
    kept.
    `handle` is the connector's own and goes back to `commit` untouched. `not_empty` are string
    columns whose empty value the format cannot hold: records with one are quarantined. `widens`
    tells whether columns may be given wider types, and made optional; `identifiers`, columns by
    dotted path, never are optional. `reserved` are names that no column of it may be given.
    `least` are the least values of columns, by their path through
    structs, that the table has a partition for: records with a lower one are quarantined.
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


def not_created(schema: Schema) -> TableState:
    """Return the state of a table that is not there yet."""
    return TableState("", "", schema, 0, None, Verdict.ABSENT, "not created yet", "", None)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What people are shown of a table: `format` in words, with the features it uses.

    `kept` counts what a commit or a reader goes through each time: snapshots (Iceberg), versions
    since the last checkpoint (Delta), and `kept_what` names it. `stored_ms` is when the storage
    says the newest metadata was written, by its own clock, where it tells. `rows` is how many rows
    the table holds, whoever wrote them; None where its metadata alone do not tell.
    """

    format: str
    history_length: int
    kept_what: str
    stored_ms: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """Describe a table to create; partitioning as text: `day(ts)`, `bucket(16, id)`, `country`.

    `sort_by` is written likewise, perhaps with `desc` behind it. `identifier_fields` become
    required columns. Formats without the one or the other refuse it (P434).
    """

    schema: Schema
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    identifier_fields: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One own commit as the table's metadata has it, for the audit; `progress` is JSON rows
    `[topic id, partition, topic, start, stop]` as `core.serialization.progress_to_json` gives them.
    """

    commit_id: str
    snapshot: str
    timestamp_ms: int
    kind: str
    progress: Sequence[Sequence[Any]]
    rows: int
    files: int


@dataclass(frozen=True, slots=True)
class History:
    """What the audit reads from metadata alone, oldest commit first.

    `complete` is false when older commits are no longer listed (trimmed or expired): the chain is
    then checked from the oldest one listed up to the ledger. `paths` lists every live data file
    once per reference, so a path listed twice is a file referenced twice. `began` is the very first
    position of the chain in a partition, where it is still known.
    """

    commits: Sequence[CommitRecord]
    complete: bool
    paths: Sequence[str]
    foreign_commits: int
    began: Positions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileSource:
    """Where the rows of one live file came from, by its source columns.

    The path is the file as a `Committable.removes` names it. `altered`: rows of it were deleted by
    marks beside it, and would come back with a new file.
    """

    found: FileRanges
    altered: bool = False


@dataclass(frozen=True, slots=True)
class StatedFile:
    """What metadata says about one live data file, and how to open it for reading.

    `open` gives a seekable file, and raises OSError (FileNotFoundError where there is none).
    """

    statistics: FileStatistics
    open: Callable[[], Any] = field(repr=False, compare=False)


class Table(Protocol):
    """One table of one catalog, on the driver."""

    name: str

    def state(self, chain: Chain) -> TableState:
        """Read the table afresh. Raises UnavailableError (not there, catalog gone), InvalidError
        (a feature that cannot be honoured, by name).
        """
        ...

    def commit(self, state: TableState, commit: Committable, *, retain: int) -> str:
        """Land files, progress and ledger in one compare-and-set on `state`; give the snapshot.

        The new ledger is `landed_after(state.landed, commit)`; for a chain without a ledger, the
        commit's origins are the first one. Own snapshots beyond `retain` are trimmed in the same
        act where the format allows. A FENCE on a ROLLED_BACK state moves the head and leaves the
        ledger as it is; a SEEK is what ends that verdict. A REPLACE takes the files in `removes`
        away in the same act; where one of them is not live in `state` nothing is applied
        (`FILES_UNFIT`). Raises ConflictError, OutcomeUnknownError, UnavailableError, InvalidError.
        """
        ...

    def evolve(self, state: TableState, schema: Schema) -> None:
        """Make a wider schema (rows/schema/widening.py) the table's in one compare-and-set on
        `state`.

        Raises ConflictError, OutcomeUnknownError, UnavailableError, InvalidError (P431 refused,
        P435 a type or name the format cannot hold, P468 a change the format cannot make).
        """
        ...

    def missing_files(self, files: Sequence[DataFile]) -> Sequence[str]:
        """List the paths that are not on storage with the size described."""
        ...

    def history(self, chain: Chain, state: TableState | None = None) -> History:
        """Read what the audit needs, as it was in `state`, else afresh. Raises UnavailableError."""
        ...

    def quarantined(
        self, chain: Chain, ranges: Sequence[Sequence[Any]]
    ) -> Sequence[tuple[str, int, int]]:
        """For a quarantine table: the coordinates (topic id, partition, offset) already in it for
        the chain's table within JSON ranges `[topic id, partition, topic, start, stop]`.
        """
        ...

    def read_quarantine(
        self,
        chain: Chain,
        columns: Sequence[str],
        ranges: Sequence[Sequence[Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """For a quarantine table: read columns of the rows of a chain's table, in any order.

        The chain `<pipeline>/*` stands for all tables of a pipeline. With `ranges`, as above, rows
        outside of them may be left out. Raises UnavailableError, InvalidError (P435 a column is not
        there), also while it is read.
        """
        ...

    def row_coordinates(
        self,
        columns: Mapping[str, str],
        state: TableState | None = None,
        offsets: pa.Array | None = None,
    ) -> pa.Table:
        """Read every live row's source coordinates: `topic: string, partition: int32, offset:
        int64`, in any order, duplicates kept. `columns` maps those three names to the table's
        columns. The rows are those of `state`, else read afresh. With `offsets`, only rows at one
        of them are given, and no more than a file, or a batch of it, is held beside them. Reads
        data files.
        """
        ...

    def file_sources(
        self, state: TableState, columns: Mapping[str, str], ends: Mapping[tuple[str, int], int]
    ) -> Sequence[FileSource]:
        """Return which files of a state hold rows from an offset on, by topic name and partition.

        `columns` maps `topic`, `partition`, `offset` to the table's columns. Files that hold no
        such row may be told as well, or left out; each that is told is read. Raises
        UnavailableError, InvalidError (P435 columns, P436 what cannot be told of this table).
        """
        ...

    def stated(self) -> Iterator[StatedFile | Mismatch]:
        """Return what metadata says about each live data file, read afresh, and where it disagrees
        with itself; features that no writer of ours honours are no hindrance. Raises
        UnavailableError, InvalidError, also while it is read.
        """
        ...

    def ledgers(self, state: TableState) -> Sequence[Landed]:
        """Return the ledgers of all chains in a state: other pipelines' as well.

        Raises UnavailableError, InvalidError (P190, P191 one cannot be read).
        """
        ...

    def describe(self) -> TableFacts:
        """Return what people want to know about it. Raises UnavailableError, InvalidError."""
        ...

    def housekeep(self) -> None:
        """Do what may fail without harm after a commit, out of band (checkpoints, old metadata)."""
        ...


class TableFormat(Protocol):
    """One catalog of the spec, on the driver."""

    def load(self, name: str) -> Table | None:
        """Find a table by the name behind the catalog's (`bronze.orders`); None when there is none.

        Raises UnavailableError when the catalog does not answer, InvalidError when something else
        stands in its place.
        """
        ...

    def create(self, name: str, definition: TableDefinition, ledgers: Sequence[Landed]) -> Table:
        """Create a table together with its ledgers; give the existing one when another was first.

        Raises InvalidError (hostile name, unwritable place, unsupported partitioning or type).
        """
        ...

    def require_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Refuse properties that no new table can have; nothing is asked or written.

        Raises InvalidError, as `create` does for them.
        """
        ...

    def preview(self, name: str, definition: TableDefinition) -> TableState:
        """Return the state of the table that `create` would make, as far as it decides which
        records fit: `schema`, `not_empty`, `widens`, `identifiers`, `reserved`, `least`.

        Nothing is written, and no server is asked. Raises InvalidError, as `create` does, for a
        name or definition that no new table can have, and a place on this machine that cannot be
        made.
        """
        ...

    def names(self, namespace: str) -> Sequence[str]:
        """List the tables in a namespace by the names that `load` takes; none when it is not there.

        What `load` refuses may be among them. Raises UnavailableError.
        """
        ...

    def discard(self, name: str) -> None:
        """Drop a scratch table, known by its name (core/scratch.py), with all its files.

        Nothing happens when it is not there. Raises BugError (P705) for the name of any other
        table, InvalidError, UnavailableError.
        """
        ...

    def check(self) -> None:
        """Prove that the catalog answers and may be written.

        Raises InvalidError, UnavailableError.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class FileWriter(Protocol):
    """Writes rows of one table on a worker; rolls files at the target size, buffers row groups."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows whose columns are the schema's, in its order and Arrow mapping.

        Raises UnavailableError (disk full, storage gone).
        """
        ...

    def close(self) -> Sequence[DataFile]:
        """Finish all files and describe them; `ranges` are left empty for the caller to fill in."""
        ...

    def abandon(self) -> None:
        """Let go of open files without finishing them; deletes nothing."""
        ...


class WriterFactory(Protocol):
    """Opens a writer from a table's `target`, on a worker."""

    def __call__(self, target: str, *, prefix: str, observer: Observer) -> FileWriter:
        """`prefix` begins every file's name: it attributes leftovers; a random part is added."""
        ...


class WriterOpener(Protocol):
    """Opens a writer as a connector offers it: references in the target are resolved here."""

    def __call__(
        self, target: str, *, prefix: str, observer: Observer, secrets: Secrets
    ) -> FileWriter:
        """Like `WriterFactory`; raises InvalidError when a reference is not there."""
        ...
