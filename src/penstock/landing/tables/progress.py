"""Where one table stands: what it has landed, what is pending, what was examined.

Invariants:
- `expected` is what the table will have landed once its pending commits are in; a commit begins
  there and nowhere else;
- `examined` is at or ahead of `expected`: what lies between holds nothing for this table;
- the quarantine chain is ahead of or level with the table's own (protocol.md 2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.commit.land import CommitContext, require_rank
from penstock.core.accounting import Tally
from penstock.core.claims import Claim
from penstock.core.commits import (
    Chain,
    CommitKind,
    Committable,
    DataFile,
    EpochNumber,
    commit_id_of,
    target_of,
)
from penstock.core.offsets import (
    LeaderEpochs,
    Offset,
    OffsetRange,
    Positions,
    TopicPartition,
    between,
    stops,
    without,
)
from penstock.core.planning import Bounds
from penstock.core.schema import Schema
from penstock.landing.settings import Settings, TableTarget
from penstock.landing.tables.quarantined_offsets import EMPTY, QuarantinedOffsets
from penstock.landing.task.results import TableResult
from penstock.ports.store import Examined, PendingStore
from penstock.ports.tables import Table, TableState


@dataclass(slots=True)
class ChainPosition:
    """Where one chain stands in its table; `seen` is the claim that landed last in it."""

    chain: Chain
    table: Table
    uuid: str
    segment: int
    schema_id: int
    last_claim: Claim
    expected: dict[TopicPartition, Offset]

    def recheck(self, conditions: CommitContext) -> None:
        """Raise FencedError when a newer owner has landed since; UnavailableError."""
        require_rank(self.table.state(self.chain), conditions.claim, conditions.supersedes)


@dataclass(frozen=True, slots=True)
class CatchUpTarget:
    """Where a partition ended when it was listed: once all before is read, all up to then is there.

    `sealed`: no transaction was open then.
    """

    stop: Offset
    listed_at_ms: int
    sealed: bool


@dataclass(slots=True)
class TableProgress:
    """Follow one target table through a run. Changed by the coordinator's thread only.

    `standing` is None while the table does not exist; `begun` is then where its ledger will begin:
    what the quarantine chain has durably landed, never what is only pending. The track of a route
    stands in its quarantine chain; `members` are its tables, None until all were looked for, and
    `strangers` others beside them, with when they are looked at again; `room` is for how many more;
    for a table, for how many columns. `wish` is the schema it is to get
    before it is read for again; `asks` says that records ask a route for tables, which it is given
    once all is landed that was examined before.
    """

    target: TableTarget
    chain: Chain
    quarantine: ChainPosition
    start_offsets: dict[TopicPartition, Offset] = field(default_factory=dict)
    position: ChainPosition | None = None
    state: TableState | None = None
    examined: dict[TopicPartition, Offset] = field(default_factory=dict)
    wanted: tuple[TopicPartition, ...] = ()
    quarantined: QuarantinedOffsets = EMPTY
    newest_ms: dict[TopicPartition, int] = field(default_factory=dict)
    catch_up_targets: dict[TopicPartition, CatchUpTarget] = field(default_factory=dict)
    through_ms: dict[TopicPartition, int] = field(default_factory=dict)
    leader_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    valid_through_ms: int | None = None
    commits_in_flight: int = 0
    route_tables: frozenset[str] | None = None
    foreign_tables: dict[str, float] = field(default_factory=dict)
    capacity_left: int = 0
    pending_schema: Schema | None = None
    wants_tables: bool = False
    committed_at: float = 0.0

    @property
    def name(self) -> str:
        """The table's name in the spec."""
        return self.target.location.table

    @property
    def expected(self) -> dict[TopicPartition, Offset]:
        """What the chain has landed or will have: the table's, or where it is to begin."""
        return (self.position or self.quarantine).expected

    @property
    def positions(self) -> list[ChainPosition]:
        """Its chains: the quarantine's, and its own when the table exists."""
        return [self.quarantine, *([self.position] if self.position else [])]

    @property
    def trailing(self) -> bool:
        """Return whether more was examined than the table's ledger will say."""
        return self.position is not None and bool(between(self.position.expected, self.examined))

    @property
    def is_blocked(self) -> bool:
        """Return whether to read on would be to read the same again."""
        return self.pending_schema is not None or (self.wants_tables and self.commits_in_flight > 0)

    @property
    def is_level(self) -> bool:
        """Return whether all that was examined has landed."""
        return not self.trailing and self.commits_in_flight == 0


@dataclass(frozen=True, slots=True)
class CommitLabels:
    """What commits of one epoch share."""

    claim: Claim
    cluster_id: str
    epoch: EpochNumber
    rules_hash: str
    attempt: str


def commits_for(track: TableProgress, found: TableResult, issue: CommitLabels) -> list[Committable]:
    """Make the commits of one table for one epoch: its quarantine chain's first, then its own.

    A chain without files is not touched; its next commit covers the stretch (protocol.md 2).
    """
    examined = {**track.examined, **found.reached}
    commits = []
    if found.rejects:
        commits.append(_quarantine_commit(track, found.rejects, examined, issue))
    if found.files:
        assert track.position is not None, "files are written only for tables that exist"
        progress = between(track.position.expected, examined)
        assert progress, f"{track.name}: rows of a stretch that has landed already"
        commits.append(
            commit_at(
                track.position,
                progress,
                found.files,
                issue,
                valid_through_ms=track.valid_through_ms,
                tallies=found.tallies,
                leader_epochs=_epochs_after(track, found),
            )
        )
    return commits


def anchor_for(
    track: TableProgress, issue: CommitLabels, tallies: Mapping[TopicPartition, Tally] | None = None
) -> Committable:
    """Make the commit that brings a trailing table's ledger level: progress, no files."""
    assert track.position is not None, "only a table can be anchored"
    progress = between(track.position.expected, track.examined)
    return commit_at(
        track.position,
        progress,
        (),
        issue,
        kind=CommitKind.ANCHOR,
        valid_through_ms=track.valid_through_ms,
        tallies=tallies,
        leader_epochs=track.leader_epochs,
    )


def _quarantine_commit(
    track: TableProgress, files: tuple[DataFile, ...], examined: Positions, issue: CommitLabels
) -> Committable:
    """Begin the chain where the table stands, on partitions it does not know yet."""
    known = track.quarantine.expected
    origins = {at: offset for at, offset in track.expected.items() if at not in known}
    progress = between({**origins, **known}, examined)
    return commit_at(track.quarantine, progress, files, issue, origins=origins)


def commit_at(
    standing: ChainPosition,
    progress: Mapping[TopicPartition, OffsetRange],
    files: tuple[DataFile, ...],
    issue: CommitLabels,
    *,
    kind: CommitKind = CommitKind.APPEND,
    valid_through_ms: int | None = None,
    origins: Positions | None = None,
    tallies: Mapping[TopicPartition, Tally] | None = None,
    leader_epochs: LeaderEpochs | None = None,
) -> Committable:
    """Make one commit of a chain; its id follows from the progress, or is drawn without one."""
    nonce = "" if progress else f"{issue.attempt}:{issue.epoch}"
    return Committable(
        chain=standing.chain,
        table_uuid=standing.uuid,
        segment=standing.segment,
        commit_id=commit_id_of(
            standing.chain, standing.uuid, standing.segment, progress, nonce=nonce
        ),
        attempt=issue.attempt,
        generation=issue.claim.generation,
        owner=issue.claim.owner,
        cluster_id=issue.cluster_id,
        epoch=issue.epoch,
        kind=kind,
        progress=progress,
        files=files,
        rules_hash=issue.rules_hash,
        schema_id=standing.schema_id,
        valid_through_ms=valid_through_ms,
        origins=origins or {},
        leader_epochs={at: e for at, e in (leader_epochs or {}).items() if at in progress},
        tallies=tallies or {},
    )


def advance(track: TableProgress, commits: list[Committable], found: TableResult) -> None:
    """Move a track over an epoch whose commits are in the pending store."""
    for commit in commits:
        own = commit.chain == track.chain
        standing = track.position if own else track.quarantine
        assert standing is not None, "a commit has a table"
        standing.expected = {**commit.origins, **standing.expected, **stops(commit.progress)}
    track.examined = {**track.examined, **found.reached}
    track.leader_epochs = _epochs_after(track, found)
    track.quarantined = track.quarantined.beyond(found.reached)
    if commits:
        track.commits_in_flight += 1


def skip_examined(track: TableProgress, reached: Positions) -> None:
    """Move a track forward over what was examined before; the epochs before there are unknown."""
    ahead = {at: offset for at, offset in reached.items() if offset > track.examined[at]}
    track.examined = {**track.examined, **ahead}
    track.leader_epochs = without(track.leader_epochs, ahead)
    track.quarantined = track.quarantined.beyond(ahead)


def _epochs_after(track: TableProgress, found: TableResult) -> dict[TopicPartition, int]:
    """Return the leader epochs before the positions reached; what is not known is forgotten."""
    passed = {**track.leader_epochs, **found.leader_epochs}
    return {at: epoch for at, epoch in passed.items() if epoch is not None}


def update_valid_through(
    track: TableProgress,
    found: TableResult,
    listed: Mapping[TopicPartition, Bounds],
    listed_at_ms: int,
) -> None:
    """Work out through what time all of a table's records have been read (docs/design/0222).

    The least of its partitions counts. A partition counts with the time of a listing once it was
    read to the end listed then; where a transaction was open at that end, with its newest record
    at most. What was read on the way there tells nothing: timestamps need not ascend.
    """
    examined = {**track.examined, **found.reached}
    for at in track.wanted:
        if at in found.newest_ms:
            newest = found.newest_ms[at]
            track.newest_ms[at] = max(track.newest_ms.get(at, newest), newest)
        bounds = listed.get(at)
        if at not in examined or bounds is None:
            continue
        now = CatchUpTarget(bounds.stop, listed_at_ms, bounds.stop == bounds.high)
        for goal in (track.catch_up_targets.get(at), now):
            if goal is not None and examined[at] >= goal.stop:
                track.catch_up_targets.pop(at, None)
                _note_passed(track, at, goal)
        if examined[at] < now.stop:
            track.catch_up_targets.setdefault(at, now)
    if track.wanted and all(at in track.through_ms for at in track.wanted):
        through = min(track.through_ms[at] for at in track.wanted)
        track.valid_through_ms = max(track.valid_through_ms or through, through)


def _note_passed(track: TableProgress, at: TopicPartition, goal: CatchUpTarget) -> None:
    """Take note that a partition was read to where it ended at a listing."""
    through = goal.listed_at_ms
    if not goal.sealed:
        if at not in track.newest_ms:
            return
        through = min(track.newest_ms[at], through)
    track.through_ms[at] = max(track.through_ms.get(at, through), through)


def retention_gap(track: TableProgress, bounds: Mapping[TopicPartition, Bounds]) -> TableResult:
    """Book the positions that retention took away, by a human's leave, as filtered."""
    reached = {
        at: bounds[at].start
        for at, offset in track.examined.items()
        if at in bounds and bounds[at].start > offset
    }
    tallies = {}
    for at, start in reached.items():
        lost = start - track.examined[at]
        tallies[at] = Tally(examined=lost, filtered={"lost to retention": lost})
    return TableResult(reached, (), (), tallies, {}, dict.fromkeys(reached))


def by_table(pipeline: str, rows: Iterable[Committable]) -> dict[str, list[Committable]]:
    """Sort pending commits by the target table they belong to, in order."""
    found: dict[str, list[Committable]] = defaultdict(list)
    for commit in rows:
        found[target_of(pipeline, commit.chain)].append(commit)
    return dict(found)


def positions_of(tracks: Iterable[TableProgress], ends: Positions | None) -> dict[str, Positions]:
    """Return what each table has examined, on the partitions it wants; none beyond `ends`."""
    return {
        track.name: {
            at: track.examined[at]
            for at in track.wanted
            if at in track.examined and (ends is None or at in ends)
        }
        for track in tracks
    }


def examined_of(track: TableProgress, rules_hash: str) -> Examined:
    """Return what to keep of a table with its pending commits, under the rules it was read by."""
    return Examined(
        dict(track.expected), dict(track.quarantine.expected), dict(track.examined), rules_hash
    )


def resume_examined(settings: Settings, store: PendingStore, track: TableProgress) -> None:
    """Go on from what was examined by these rules, if the table stands as then (advisory)."""
    known = store.examined(settings.pipeline, track.name).get(track.name)
    if known is None or track.position is None or known.rules_hash != settings.rules_hash:
        return
    if known.basis == track.position.expected and known.rejects == track.quarantine.expected:
        skip_examined(track, known.reached)
