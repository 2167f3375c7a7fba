"""Events of maintenance beside a run; the rules of `events.py` hold for them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.events import Event
from penstock.core.maintenance import LastMaintenance, TableHealth


@dataclass(frozen=True, slots=True)
class TableMaintained(Event):
    """A table was maintained beside the run: so many files became so many, snapshots expired, files
    that nothing names were deleted, or noted to be deleted later. `given_up` counts the groups of
    files that were written and yielded to what landed meanwhile.
    """

    table: str
    files_before: int
    files_after: int
    expired: int
    deleted: int
    noted: int
    written_bytes: int = 0
    given_up: int = 0


@dataclass(frozen=True, slots=True)
class MaintenanceFailed(Event):
    """Maintenance beside the run ended early, or left a table as it is; "" is all tables."""

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class LayoutMeasured(Event):
    """The files of a table were looked at, beside the run: `files_after` would do.

    Of its rows, `deleted` are deleted and still in its files; `metadata_bytes` is what a reader
    reads first, `commit_bytes` what each commit writes again. `maintained_ms` is when files of it
    were last written again, by `maintained_by`; None where its metadata do not tell. `late` files
    have rows that wait for their partitions. `doubled` says of which versions rows may be there
    twice.
    """

    table: str
    files: int
    files_after: int
    size_bytes: int
    rows: int
    deleted: int
    metadata_bytes: int
    commit_bytes: int
    groups: int
    target_bytes: int
    maintained_ms: int | None = None
    maintained_by: str = ""
    late: int = 0
    doubled: str = ""

    @property
    def health(self) -> TableHealth:
        """Return it as what it says of the table."""
        at_ms = self.maintained_ms
        return TableHealth(
            self.files,
            self.files_after,
            self.size_bytes,
            self.rows,
            self.deleted,
            self.metadata_bytes,
            self.groups,
            self.target_bytes,
            self.commit_bytes,
            None if at_ms is None else LastMaintenance(at_ms, self.maintained_by),
            self.late,
            self.doubled,
        )


@dataclass(frozen=True, slots=True)
class RowsDoubled(Event):
    """Rows of a table may be there twice: another writer compacted files that had been compacted;
    `reason` names versions and files.
    """

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class EpochsWidened(Event):
    """Epochs are `every_seconds` apart from now on, where the spec says `usual_seconds`: a table
    has so many more files than would do.
    """

    table: str
    excess_files: int
    every_seconds: float
    usual_seconds: float


@dataclass(frozen=True, slots=True)
class EpochsNarrowed(Event):
    """Tables have fewer files: epochs that were widened are `every_seconds` apart from now on."""

    every_seconds: float
    usual_seconds: float


@dataclass(frozen=True, slots=True)
class HoldExceeded(Event):
    """A table has more files too many than `maintain.hold` says, and it says to do nothing."""

    table: str
    excess_files: int
