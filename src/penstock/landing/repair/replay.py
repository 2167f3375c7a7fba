"""Land a stretch of a table again: the files that hold it are replaced by new ones, in one commit.

The table says which files hold the stretch; a replay is refused unless they hold nothing else. The
records are read again under the present rules (`landing/repair/reread.py`), and one compare-and-set
on exactly that state takes the old files away and brings the new ones (docs/design/0110).

Invariants:
- positions, chain and pending store are as before; until the commit nothing is changed, and a kill
  leaves unreferenced files;
- what is in quarantine stays there and lands in no new file;
- a record that is in the table and would be rejected now stops it: no record leaves both places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.commit.chain_position import ChainPosition, commit_at
from penstock.commit.manual import land_manual
from penstock.core.accounting import Tally
from penstock.core.commits import CommitKind
from penstock.core.errors import InvalidError
from penstock.core.file_ranges import Partitioned, partition_files, rows_of, starts_of_rows
from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.landing.repair.access import ExclusiveAccess
from penstock.landing.repair.allowed_ranges import (
    Bounded,
    Requested,
    bounded_ranges,
    require_readable,
    require_single_pipeline,
    resolve_partitions,
)
from penstock.landing.repair.reread import Ranges, reread
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.chosen_offsets import ChosenOffsets
from penstock.landing.task.results import TableResult
from penstock.ports.tables import TableState
from penstock.rows.options import RowOptions

NEEDED = ("topic", "partition", "offset")
FILES_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Replacement:
    """Which files are replaced, the rows in them by their source, and what is read for it.

    `verb` is what a person asked for. `only` are the records of the rows in the files, where each
    of them has to be seen again; of the others in the ranges those in `rest` land, none else.
    """

    table: str
    ranges: Ranges
    files: tuple[str, ...]
    counts: Mapping[tuple[str, int], int]
    state: TableState
    verb: str = "replay"
    only: ChosenOffsets | None = field(default=None, compare=False, repr=False)
    rest: ChosenOffsets = field(default_factory=dict, compare=False, repr=False)

    @property
    def rows(self) -> int:
        """Count the rows in the files."""
        return sum(self.counts.values())

    @property
    def positions(self) -> int:
        """Count the positions that are read again."""
        return sum(covered.count for covered in self.ranges.values())


@dataclass(frozen=True, slots=True)
class Replayed:
    """What landing again did: rows taken away, rows put there, records left out by reason."""

    removed: int
    landed: int
    filtered: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The rows of one partition in the old files, and the positions that were to be read again."""

    rows: int
    positions: int


def plan_replay(progress: TableProgress, wanted: Requested, bounds: Bounded) -> Replacement:
    """Work out what a replay would replace. Writes nothing.

    `wanted` are ranges by topic and partition; None means all partitions, and all that
    landed. Raises InvalidError (P461, P472 not landed, P473 files across the edge, P475
    rows deleted by marks, P478 records that Kafka no longer has, P482 two pipelines, P483 no row
    and no beginning, P485 another topic of that name, P186), UnavailableError (P250).
    """
    name = progress.name
    if progress.target.route is not None:
        raise InvalidError(
            f"{name} is fed record by record by a route, and cannot be replayed",
            code="P474",
            hint="this release replays tables of a fixed name",
        )
    if progress.target.options.keyed is not None:
        raise InvalidError(
            f"{name} is a keyed table, and cannot be replayed: later changes have replaced rows of"
            " the stretch",
            code="P474",
            hint=f"penstock seek --reapply {name} TOPIC:PARTITION:OFFSET  applies all changes from"
            " there on again",
        )
    position = table_there(progress)
    state, table = position.read(), position.table
    asked = resolve_partitions(name, progress.expected, wanted)
    columns = source_columns(name, progress.target.options)
    require_single_pipeline(progress.chain, table.ledgers(state), asked)
    ends = {(at.topic, at.partition): each.start if each else 0 for at, each in asked.items()}
    sources = table.file_sources(state, columns, ends)
    firsts = starts_of_rows(each.found for each in sources)
    began = table.history(progress.chain).began
    stretch = bounded_ranges(name, progress.expected, asked, began, firsts)
    require_readable(name, stretch, bounds)
    named = {(at.topic, at.partition): covered for at, covered in stretch.items()}
    found = partition_files((each.found for each in sources), named)
    if found.across:
        raise _straddling(name, found, named)
    inside = {each.path for each in found.inside}
    altered = [each.found.path for each in sources if each.altered and each.found.path in inside]
    if altered:
        raise InvalidError(
            f"{name}: rows of {altered[0]} were deleted, and would come back",
            code="P475",
            hint="rewrite the table's files without the deleted rows first (compaction)",
        )
    return Replacement(name, stretch, tuple(sorted(inside)), rows_of(found.inside), state)


def land_again(
    held: ExclusiveAccess, progress: TableProgress, planned: Replacement, *, new_rows: bool = False
) -> Replayed:
    """Read the records again and land them in the place of the old files, once.

    `new_rows`: land records of the ranges as well that have no row in these files. Raises
    DecisionNeededError (P476) when a record that is in the table would be rejected now,
    InvalidError (P475 more rows than before and not `new_rows`, P478 rows with records that Kafka
    may no longer have), and what engines, `land_manual` and writers raise.
    """
    state, position = planned.state, progress.position
    assert position is not None, "its state was read"
    assert state.landed is not None, "a table of which rows land again has landed something"
    progress = replace(progress, state=state)
    if planned.only is None:
        found = [_counted_again(held, progress, planned, new_rows=new_rows)]
    else:
        seen = _seen_again(held, progress, planned.only)
        found = [seen, _chosen(held, progress, planned.rest)]
    # The ledger keeps the rules by which its newest records were decided.
    rules_hash = state.landed.rules_hash or held.settings.rules_hash
    commit = commit_at(
        replace(position, uuid=state.uuid, schema_id=state.schema_id),
        {},
        tuple(file for part in found for file in part.files),
        held.labels(planned.verb, rules_hash),
        kind=CommitKind.REPLACE,
        nonce=f"{planned.verb}:{state.head}:{held.environment.token()}",
        removes=planned.files,
    )
    land_manual(commit, state, position.table, held.claim.commit_context)
    total = sum((part.total for part in found), Tally())
    return Replayed(planned.rows, total.landed, dict(total.filtered))


def _counted_again(
    held: ExclusiveAccess, progress: TableProgress, planned: Replacement, *, new_rows: bool
) -> TableResult:
    found, quarantined = reread(held, progress, planned.ranges)
    for at, covered in planned.ranges.items():
        before = planned.counts.get((at.topic, at.partition), 0)
        seen = RowCounts(before, covered.count - quarantined[at])
        tally = found.tallies.get(at, Tally())
        require_all_seen(progress.name, at, seen, tally, new_rows=new_rows)
    return found


def _seen_again(held: ExclusiveAccess, progress: TableProgress, only: ChosenOffsets) -> TableResult:
    found = _chosen(held, progress, only)
    for at, chosen in only.items():
        require_each_seen(progress.name, at, len(chosen), found.tallies.get(at, Tally()))
    return found


def _chosen(held: ExclusiveAccess, progress: TableProgress, only: ChosenOffsets) -> TableResult:
    ranges = {at: chosen.covers() for at, chosen in only.items() if len(chosen)}
    return reread(held, replace(progress, only=only), ranges)[0]


def require_all_seen(
    table: str, at: TopicPartition, seen: RowCounts, tally: Tally, *, new_rows: bool
) -> None:
    """Raise InvalidError where a row would be lost (P478), or a deleted one come back (P475).

    Where every position gave a record, every row's record was among them. Where some gave none, as
    after compaction and with transactions, exactly as many rows as there were must come again.
    """
    silent = seen.positions - tally.examined
    if silent and (tally.landed < seen.rows or (new_rows and tally.landed > seen.rows)):
        raise InvalidError(
            f"{table}: {seen.rows} rows of {at} are in the files, {tally.landed} would come"
            f", and Kafka has no record at {silent} positions: nothing was changed",
            code="P478",
            hint="the topic is compacted, or records were deleted: replay what Kafka has whole",
        )
    if tally.landed > seen.rows and not new_rows:
        raise InvalidError(
            f"{table}: {seen.rows} rows of {at} are in the files, and {tally.landed} would come:"
            " nothing was changed",
            code="P475",
            hint="filtered out by an earlier rule, or deleted since; to get all:  --new-rows",
        )


def require_each_seen(table: str, at: TopicPartition, chosen: int, tally: Tally) -> None:
    """Raise InvalidError (P478) where Kafka has not given each chosen record again."""
    if tally.examined != chosen:
        raise InvalidError(
            f"{table}: {chosen} records of {at} have rows in the files, and Kafka has"
            f" {tally.examined} of them: nothing was changed",
            code="P478",
            hint="the topic is compacted, or records were deleted: leave these partitions as they"
            " are",
        )


def table_there(progress: TableProgress) -> ChainPosition:
    """Return the position of a table that is there. Raises InvalidError (P461)."""
    if progress.position is None:
        raise InvalidError(
            f"table {progress.name} does not exist",
            code="P461",
            hint="nothing has landed in it yet, or it was dropped; see  penstock status",
        )
    return progress.position


def source_columns(table: str, options: RowOptions) -> dict[str, str]:
    """Name the columns that say where rows came from. Raises InvalidError (P186)."""
    columns = options.source_columns
    lacking = [name for name in NEEDED if name not in columns]
    if lacking:
        raise InvalidError(
            f"{table}: rows cannot be identified without source columns {', '.join(lacking)}",
            code="P186",
            hint="land topic, partition and offset: they identify what to replace",
        )
    return {name: columns[name] for name in NEEDED}


def _straddling(
    table: str, found: Partitioned, stretch: Mapping[tuple[str, int], OffsetRange]
) -> InvalidError:
    named = ", ".join(each.path for each in found.across[:FILES_NAMED_MAX])
    more = len(found.across) - FILES_NAMED_MAX
    without_source = any(each.rows_without_source for each in found.across)
    wide = " ".join(
        f"{topic}:{number}:{covered.start}-{covered.stop}"
        for (topic, number), covered in sorted(found.widened(stretch).items())
    )
    return InvalidError(
        f"{table}: files hold rows of the range and others: {named}"
        + (f" and {more} more" if more > 0 else ""),
        code="P473",
        hint="they hold rows without a source: replay cannot replace such files"
        if without_source
        else f"replay everything they hold:  penstock replay {table} {wide}",
    )
