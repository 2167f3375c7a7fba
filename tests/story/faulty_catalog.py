"""A lying catalog: wraps any `TableFormat` and plays the faults of networks and proxies.

Faults are queued for a table and used up one a commit, in order; without one the commit goes
through. What each does to the table and to the caller:

| fault          | applied          | the caller sees                          |
|----------------|------------------|------------------------------------------|
| LOSE_ANSWER    | yes              | OutcomeUnknownError                      |
| LOSE_REQUEST   | no               | OutcomeUnknownError                      |
| DELAY          | at `release()`   | OutcomeUnknownError                      |
| REFUSE         | no               | UnavailableError                         |
| FORBID         | no               | InvalidError                             |
| CONFLICT       | no               | ConflictError                            |
| OK_UNAPPLIED   | no               | a snapshot, as if it had landed          |
| TWICE          | asked for twice  | the first answer                         |
| CRASH_BEFORE   | no               | `Crash`                                  |
| CRASH_AFTER    | yes              | `Crash`                                  |
| CRASH_DELAYED  | at `release()`   | `Crash`                                  |

Invariants: what is applied goes through the wrapped table's own compare-and-set; nothing is faked
in it.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, assert_never

from tests.story.observer import Crash

from penstock.core.commits import Chain, Committable, DataFile, Landed
from penstock.core.errors import (
    ConflictError,
    InvalidError,
    OutcomeUnknownError,
    PenstockError,
    UnavailableError,
)
from penstock.core.expiry import Expiry
from penstock.core.maintenance import Layout
from penstock.core.schema import Schema
from penstock.core.statistics import Mismatch
from penstock.ports.histories import CommitsBehind, History
from penstock.ports.increments import ReadableFiles
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.row_deletes import LiveFile, RowDeleteMode, RowDeletes, RowPositions, Sought
from penstock.ports.tables import (
    FileSource,
    StatedFile,
    Table,
    TableDefinition,
    TableFacts,
    TableFormat,
    TableState,
)
from penstock.ports.upkeep import TableStorage, Upkeep

if TYPE_CHECKING:
    import pyarrow as pa


class Fault(StrEnum):
    """Name what goes wrong with one commit."""

    LOSE_ANSWER = "lose answer"
    LOSE_REQUEST = "lose request"
    DELAY = "delay"
    REFUSE = "refuse"
    FORBID = "forbid"
    CONFLICT = "conflict"
    OK_UNAPPLIED = "ok unapplied"
    TWICE = "twice"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CRASH_DELAYED = "crash delayed"


class FaultPlan:
    """Hold the faults to come, the delayed commits, and the tables that are away."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._queued: dict[str, deque[Fault]] = defaultdict(deque)
        self._delayed: list[Callable[[], str]] = []
        self._away: dict[str, str] = {}
        self._before: dict[str, deque[Callable[[], object]]] = defaultdict(deque)
        self.played: list[tuple[str, Fault]] = []

    def queue(self, table: str, *faults: Fault) -> None:
        """Let the next commits of a table go wrong, one fault a commit."""
        with self._guard:
            self._queued[table] += faults

    def clear(self) -> None:
        """Forget the faults that were not used up."""
        with self._guard:
            self._queued.clear()

    def before_commit(self, table: str, act: Callable[[], object]) -> None:
        """Play an act between the next commit's examination and its request: a foreign one, say."""
        with self._guard:
            self._before[table].append(act)

    def take_away(self, table: str, reason: str = "is not there") -> None:
        """Make a table unavailable: not found by `load`, refused by its methods."""
        with self._guard:
            self._away[table] = reason

    def give_back(self, table: str) -> None:
        """Bring a table back."""
        with self._guard:
            self._away.pop(table, None)

    def release(self) -> list[str]:
        """Let delayed commits arrive now, oldest first; return how each ended."""
        with self._guard:
            delayed, self._delayed = self._delayed, []
        return [_outcome(apply) for apply in delayed]

    def reason_away(self, table: str) -> str | None:
        """Return why a table is away, or None."""
        with self._guard:
            return self._away.get(table)

    def next(self, table: str) -> Fault | None:
        """Use up the next fault of a table."""
        with self._guard:
            if not self._queued[table]:
                return None
            fault = self._queued[table].popleft()
            self.played.append((table, fault))
            return fault

    def delay(self, apply: Callable[[], str]) -> None:
        """Keep a commit for `release`."""
        with self._guard:
            self._delayed.append(apply)

    def take_delayed(self) -> list[Callable[[], str]]:
        """Take the delayed commits out of here, for a test that lets each arrive by itself."""
        with self._guard:
            delayed, self._delayed = self._delayed, []
        return delayed

    def play_acts(self, table: str) -> None:
        """Play the acts that were to come before this commit."""
        with self._guard:
            acts, self._before[table] = self._before[table], deque()
        for act in acts:
            act()


class FaultyTables:
    """Wrap a catalog so that its tables' commits go by a fault plan."""

    def __init__(self, tables: TableFormat, plan: FaultPlan) -> None:
        self._tables = tables
        self._plan = plan

    def load(self, name: str) -> Table | None:
        """Find a table that is not away."""
        table = None if self._plan.reason_away(name) else self._tables.load(name)
        return None if table is None else FaultyTable(table, self._plan)

    def create(self, name: str, definition: TableDefinition, ledgers: Sequence[Landed]) -> Table:
        """Create a table; refused while it is away."""
        _check_there(name, self._plan)
        return FaultyTable(self._tables.create(name, definition, ledgers), self._plan)

    def require_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Pass on."""
        self._tables.require_properties(name, properties)

    def preview(self, name: str, definition: TableDefinition) -> TableState:
        """Pass on."""
        return self._tables.preview(name, definition)

    def names(self, namespace: str) -> Sequence[str]:
        """Pass on."""
        return self._tables.names(namespace)

    def discard(self, name: str) -> None:
        """Pass on."""
        self._tables.discard(name)

    def check(self) -> None:
        """Pass on."""
        self._tables.check()

    def close(self) -> None:
        """Pass on."""
        self._tables.close()


class FaultyTable:
    """Wrap a table so that its commits go by a fault plan."""

    def __init__(self, table: Table, plan: FaultPlan) -> None:
        self.name = table.name
        self._table = table
        self._plan = plan

    def state(self, chain: Chain) -> TableState:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.state(chain)

    def commit(
        self,
        state: TableState,
        commit: Committable,
        *,
        retain: int,
        row_deletes: Sequence[RowDeletes] = (),
    ) -> str:
        """Commit as the plan says."""
        return by_plan(
            self.name,
            self._plan,
            lambda: self._table.commit(state, commit, retain=retain, row_deletes=row_deletes),
        )

    def require_row_deletes(
        self, state: TableState, mode: RowDeleteMode = RowDeleteMode.AUTO
    ) -> None:
        """Pass on."""
        self._table.require_row_deletes(state, mode)

    def live_files(self, state: TableState) -> Sequence[LiveFile]:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.live_files(state)

    def layout(self, state: TableState) -> Layout:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.layout(state)

    def require_rearrangeable(self, state: TableState) -> None:
        """Pass on."""
        self._table.require_rearrangeable(state)

    def delete_states(self, state: TableState, paths: Collection[str]) -> Mapping[str, str]:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.delete_states(state, paths)

    def deleted_rows(self, state: TableState, path: str) -> RowPositions:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.deleted_rows(state, path)

    def readable(self, state: TableState, paths: Sequence[str]) -> ReadableFiles:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.readable(state, paths)

    def rearrange(self, state: TableState, rearrangements: Sequence[Rearrangement]) -> str:
        """Rearrange as the plan says, like a commit."""
        return by_plan(self.name, self._plan, lambda: self._table.rearrange(state, rearrangements))

    def upkeep(self, state: TableState) -> Upkeep:
        """Expire and raise eras as the plan says, like a commit."""
        _check_there(self.name, self._plan)
        return FaultyUpkeep(self.name, self._table.upkeep(state), self._plan)

    def read_live(
        self,
        state: TableState,
        file: LiveFile,
        columns: Sequence[str],
        sought: Sought | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.read_live(state, file, columns, sought)

    def read_written(
        self, state: TableState, file: DataFile, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.read_written(state, file, columns)

    def evolve(self, state: TableState, schema: Schema) -> None:
        """Evolve as the plan says, like a commit."""

        def apply() -> str:
            self._table.evolve(state, schema)
            return "evolved"

        by_plan(self.name, self._plan, apply)

    def missing_files(self, files: Sequence[DataFile]) -> Sequence[str]:
        """Pass on."""
        return self._table.missing_files(files)

    def history(self, chain: Chain, state: TableState | None = None) -> History:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.history(chain, state)

    def commits(self, chain: Chain, state: TableState, behind: str = "") -> CommitsBehind:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.commits(chain, state, behind)

    def quarantined(
        self, chain: Chain, ranges: Sequence[Sequence[Any]]
    ) -> Sequence[tuple[str, int, int]]:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.quarantined(chain, ranges)

    def read_quarantine(
        self,
        chain: Chain,
        columns: Sequence[str],
        ranges: Sequence[Sequence[Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        return self._table.read_quarantine(chain, columns, ranges)

    def row_coordinates(
        self,
        columns: Mapping[str, str],
        state: TableState | None = None,
        offsets: pa.Array | None = None,
    ) -> pa.Table:
        """Pass on."""
        return self._table.row_coordinates(columns, state, offsets)

    def file_sources(
        self, state: TableState, columns: Mapping[str, str], ends: Mapping[tuple[str, int], int]
    ) -> Sequence[FileSource]:
        """Read the files, if the table is there."""
        _check_there(self.name, self._plan)
        return self._table.file_sources(state, columns, ends)

    def stated(self) -> Iterator[StatedFile | Mismatch]:
        """Read the metadata, if the table is there."""
        _check_there(self.name, self._plan)
        return self._table.stated()

    def ledgers(self, state: TableState) -> Sequence[Landed]:
        """Read the ledgers, if the table is there."""
        _check_there(self.name, self._plan)
        return self._table.ledgers(state)

    def describe(self) -> TableFacts:
        """Return the facts of the table, if it exists."""
        _check_there(self.name, self._plan)
        return self._table.describe()

    def housekeep(self) -> None:
        """Pass on, unless the table is away."""
        _check_there(self.name, self._plan)
        self._table.housekeep()


class FaultyUpkeep:
    """Wrap the upkeep of a table so that its requests go by a fault plan."""

    def __init__(self, name: str, upkeep: Upkeep, plan: FaultPlan) -> None:
        self._name, self._upkeep, self._plan = name, upkeep, plan

    def stage(self, rearrangements: Sequence[Rearrangement]) -> None:
        """Pass on."""
        self._upkeep.stage(rearrangements)

    def expiry(self, now_ms: int) -> Expiry:
        """Pass on."""
        return self._upkeep.expiry(now_ms)

    def expire(self, expiry: Expiry) -> None:
        """Expire as the plan says, like a commit."""

        def apply() -> str:
            self._upkeep.expire(expiry)
            return "expired"

        by_plan(self._name, self._plan, apply)

    def era(self) -> int:
        """Pass on."""
        return self._upkeep.era()

    def raise_era(self) -> str:
        """Raise as the plan says, like a commit."""
        return by_plan(self._name, self._plan, self._upkeep.raise_era)

    def named(self) -> Collection[str]:
        """Pass on."""
        return self._upkeep.named()

    def newest(self) -> Mapping[str, str]:
        """Pass on."""
        return self._upkeep.newest()

    def storage(self) -> TableStorage:
        """Pass on."""
        return self._upkeep.storage()


def by_plan(name: str, plan: FaultPlan, apply: Callable[[], str]) -> str:
    """Make a request of a table as the plan says."""
    plan.play_acts(name)
    _check_there(name, plan)
    fault = plan.next(name)
    return apply() if fault is None else _played(name, plan, fault, apply)


def _played(name: str, plan: FaultPlan, fault: Fault, apply: Callable[[], str]) -> str:
    match fault:
        case Fault.LOSE_ANSWER:
            _outcome(apply)
            raise OutcomeUnknownError(f"{name}: the answer was lost", code="P433")
        case Fault.LOSE_REQUEST:
            raise OutcomeUnknownError(f"{name}: the request was lost", code="P433")
        case Fault.DELAY:
            plan.delay(apply)
            raise OutcomeUnknownError(f"{name}: no answer yet", code="P433")
        case Fault.REFUSE:
            raise UnavailableError(f"{name}: the catalog is gone", code="P430")
        case Fault.FORBID:
            raise InvalidError(f"{name}: the catalog refused us", code="P431")
        case Fault.CONFLICT:
            raise ConflictError(f"{name}: the table moved", code="P401")
        case Fault.OK_UNAPPLIED:
            return "never-made"
        case Fault.TWICE:
            snapshot = apply()
            _outcome(apply)
            return snapshot
        case Fault.CRASH_BEFORE:
            raise Crash(f"crashed before the commit of {name}")
        case Fault.CRASH_AFTER:
            apply()
            raise Crash(f"crashed after the commit of {name}")
        case Fault.CRASH_DELAYED:
            plan.delay(apply)
            raise Crash(f"crashed with the commit of {name} on its way")
        case _:
            assert_never(fault)


def _check_there(name: str, plan: FaultPlan) -> None:
    reason = plan.reason_away(name)
    if reason is not None:
        raise UnavailableError(f"the table {name} {reason}", code="P402")


def _outcome(apply: Callable[[], str]) -> str:
    """Apply a commit with a lost answer; return its end for the test."""
    try:
        return apply()
    except PenstockError as error:
        return type(error).__name__
