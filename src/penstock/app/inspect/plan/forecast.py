"""What a plan says: of each table, of the sampled records, and how the run would end.

Invariant: the exit code is that of the run that is predicted (docs/design/0236).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.app.inspect.notebook_tables import NotebookTable, Rows
from penstock.core.errors import PenstockError, gravest
from penstock.core.hold import HoldAct

NOTHING, CHANGES, DESTRUCTIVE = 0, 10, 11


@dataclass(frozen=True, slots=True)
class StartRange:
    """What one table reads of one partition, and why it starts there."""

    topic: str
    partition: int
    start: int
    stop: int
    reason: str

    @property
    def records(self) -> int:
        """Count the positions to read, an upper bound of the records."""
        return max(self.stop - self.start, 0)


@dataclass(frozen=True, slots=True)
class RejectGroup:
    """Sampled records that do not fit for one reason, with one of them as an example.

    `field` is the path of the column, "" where the reason is not one field's. `topic`, `partition`
    and `offset` say where the example is, `value` is it, and `message` what is wrong with it.
    """

    code: str
    field: str
    count: int
    message: str
    topic: str
    partition: int
    offset: int
    value: bytes | None = None


@dataclass(frozen=True, slots=True)
class SampledChanges:
    """What the sampled records of a keyed table come to: of each key one change stays.

    `upserts` and `deletes` count keys, `superseded` the records that later ones of their key
    replace, and `across` the keys that two partitions change.
    """

    upserts: int
    deletes: int
    superseded: int
    across: int


@dataclass(frozen=True, slots=True)
class Adoption:
    """A table that has appended and becomes keyed; `rows` is how many it has, where known."""

    rows: int | None


@dataclass(frozen=True, slots=True)
class Sampled:
    """What became of the sampled records of a table, when the workers' code was run on them.

    `rejects` are those that do not fit, by reason, and `changes` what those of a keyed table do.
    `complete` when they are all that a run would
    read now; `would_park` when so many do not fit that `quarantine.stop_above` parks the table.
    """

    records: int = 0
    landed: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)
    rejects: tuple[RejectGroup, ...] = ()
    changes: SampledChanges | None = None
    complete: bool = False
    would_park: bool = False


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What a run would do with one table.

    `mode` is what records do to it, by the word of the spec, and `keys` are the columns of its key,
    `sequence_by` those by which the last change wins, `flag` that of deleted rows that stay, or "";
    `rewrite_bytes_max` is how much a commit may write again, where files are for rows that go;
    `adopts` says that it has appended until now, and becomes keyed.
    `columns` are those of a table to create; `missing` the fields of sampled records for which an
    existing table has no column, and `columns_policy` what becomes of them. `unmatched_hints` are
    hints for which no sampled record has a field, each with the most similar field, or "";
    `ignored_hints` are hints of columns that are there with another type, each with both types.
    `exchanged`: rows of a partition meet in one task before they are written.
    `creation_only` are settings that apply only when a table is created, and this one exists.
    `destructive` are steps that give something up, `problem` is what prevents it. `pending` counts
    commits to settle first.
    """

    table: str
    mode: str = "append"
    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    flag: str = ""
    rewrite_bytes_max: int | None = None
    adopts: Adoption | None = None
    create: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    unmatched_hints: tuple[tuple[str, str], ...] = ()
    columns_policy: str = ""
    ignored_hints: tuple[tuple[str, str, str], ...] = ()
    creation_only: tuple[str, ...] = ()
    exchanged: bool = False
    ranges: tuple[StartRange, ...] = ()
    size_bytes: int | None = None
    sampled: Sampled = field(default_factory=Sampled)
    pending: int = 0
    destructive: tuple[PenstockError, ...] = ()
    problem: PenstockError | None = None

    @property
    def records(self) -> int:
        """Count the positions to read."""
        return sum(each.records for each in self.ranges)

    @property
    def parked(self) -> PenstockError | None:
        """Return the error with which a run would park the table; None when it would not."""
        return self.problem or next(iter(self.destructive), None)


@dataclass(frozen=True, slots=True)
class Plan(NotebookTable):
    """A whole plan. `rows_per_second` is the last run's pace, where known.

    `owner` is the process that runs the pipeline now; `level_first` names tables that are first
    brought level under the previous spec; `unrouted` are topics that no table takes.
    `stops` are what would end the whole run, in order; `unmatched_patterns` match no topic. `sick`
    counts the files that tables have too many, as far as the last run knew, for which a run would
    do what `hold` says.
    """

    pipeline: str
    tables: tuple[TablePlan, ...]
    creates_quarantine: str = ""
    owner: str = ""
    level_first: tuple[str, ...] = ()
    unrouted: tuple[str, ...] = ()
    rows_per_second: float | None = None
    stops: tuple[PenstockError, ...] = ()
    unmatched_patterns: tuple[str, ...] = ()
    sick: Mapping[str, int] = field(default_factory=dict)
    hold: HoldAct = HoldAct.WIDEN

    def rows(self) -> Rows:
        """Return a row for each table."""
        return [
            {
                "table": each.table,
                "create": each.create,
                "columns": ", ".join(f"{name} {kind}" for name, kind in each.columns),
                "missing": ", ".join(f"{name} {kind}" for name, kind in each.missing),
                "records": each.records,
                "pending": each.pending,
                "destructive": "; ".join(error.message for error in each.destructive),
                "problem": ""
                if each.problem is None
                else f"{each.problem.code} {each.problem.message}",
                "mode": each.mode,
                "keys": ", ".join(each.keys),
            }
            for each in self.tables
        ]

    @property
    def change(self) -> int:
        """Return 0 for nothing to do, 10 for changes, 11 for destructive ones."""
        if any(table.destructive for table in self.tables):
            return DESTRUCTIVE
        busy = any(each.create or each.records or each.pending for each in self.tables)
        return CHANGES if busy or self.level_first else NOTHING

    @property
    def reason(self) -> PenstockError | None:
        """Return the error that a run would end with; None when it would land all."""
        if self.stops:
            return self.stops[0]
        parked = [each.parked for each in self.tables if each.parked is not None]
        code = gravest(each.exit_code for each in parked)
        return next((each for each in parked if each.exit_code == code), None)

    @property
    def exit_code(self) -> int:
        """Return the exit code that `penstock run --until-caught-up` would end with now."""
        return self.reason.exit_code if self.reason is not None else 0

    @property
    def problem_code(self) -> int:
        """Return the same, as if a person had consented to what is destructive."""
        problems = [each.problem for each in self.tables if each.problem is not None]
        return gravest(each.exit_code for each in self.stops[:1] or problems)

    @property
    def seconds(self) -> float | None:
        """Estimate the time to catch up, at the pace of the last run."""
        rows = sum(table.records for table in self.tables)
        return rows / self.rows_per_second if rows and self.rows_per_second else None
