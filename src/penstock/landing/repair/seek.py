"""Put a table's ledger back to where its rows end, so that what was lost is landed again.

Source: docs/design/0111 and 0219. It is the way out of a rollback, and of rows that were
deleted at the end of a table. A seek begins a new segment: what landed before it may land once
more.

Invariants:
- a position is put back to the end of the partition's rows or after it, never before it: no
  existing row lands twice. A keyed table may be put back before it: its changes are applied again;
- a retried record without its row is open in the quarantine again before the seek lands; one with
  its row is left as it is;
- changes are applied again to rows that are there only where a person says so (`reapply`), and what
  was retried among them is open again: the changes before it undo it (docs/design/0249);
- positions are never put forward: what shall not land is left out by the spec, where it is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.commit.chain_position import commit_at, position_at, read_position
from penstock.commit.errors import rolled_back
from penstock.commit.fence import fence_rollback
from penstock.commit.manual import land_manual
from penstock.core.commits import Chain, CommitKind, Landed
from penstock.core.errors import InvalidError
from penstock.core.growth import FormerEnds, end_in
from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.core.resolutions import records_only, resolutions_of
from penstock.landing.repair.access import ExclusiveAccess
from penstock.landing.repair.allowed_ranges import (
    Bounded,
    not_landed,
    require_single_pipeline,
    start_unknown,
    unlisted,
)
from penstock.landing.repair.reconvert import WriteContext
from penstock.landing.repair.replay import source_columns
from penstock.landing.repair.retry import QuarantineResolver
from penstock.landing.repair.table_rows import TableRows
from penstock.landing.settings import Environment, Settings, TableTarget
from penstock.landing.tables import opening
from penstock.ports.tables import Table, TableState, Verdict
from penstock.rows.quarantine.status import READ, status_of
from penstock.spec.routing.names import no_table

Wanted = Mapping[tuple[str, int], Offset]


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """Where a partition is put back from and to; `given_up` positions hold no row and stay so.

    `expired` of them are no longer in Kafka.
    """

    at: TopicPartition
    start: Offset
    stop: Offset
    given_up: int
    expired: int


@dataclass(frozen=True, slots=True)
class SeekPlan:
    """What a seek would do, on the state it was worked out from.

    `reopened` are the statuses (rows/quarantine/status.py) of retried records that lost their rows:
    they are to be open again before it lands.
    """

    chain: Chain
    table: Table
    state: TableState
    moves: tuple[PartitionMove, ...]
    reopened: pa.Table


@dataclass(frozen=True, slots=True)
class SeekBounds:
    """What bounds a seek: where rows end, where the chain began, what Kafka has.

    `reapply`: what has landed may land again, as changes by key; None of a table that appends.
    `whole`: all partitions go back, named or not. So they do after a rollback: a seek accepts it
    for the whole chain, and what the others lost would never be landed again.
    """

    ends: Mapping[tuple[str, int], int]
    began: Positions
    bounds: Bounded
    whole: bool
    rolled_back: bool = False
    reapply: bool | None = None


ROW_GONE = "its row went, and the table was put back: penstock seek"


def plan_seek(
    settings: Settings,
    environment: Environment,
    name: str,
    wanted: Wanted,
    *,
    reapply: bool = False,
) -> SeekPlan:
    """Work out where a table is put back to; without `wanted`, where its rows end. Writes nothing.

    With `reapply` a keyed table is put back to before its rows end, and has all changes from there
    on applied again, by the rules of now: meanwhile rows go back to what they were, and a key that
    was deleted since may have a row until its delete is applied again.

    Raises InvalidError (P185, P186, P270 without partitions that were added, P461, P474, P472
    forward, P264 changes would be applied again and not `reapply`, P268 `reapply` of a table that
    appends, P479 rows would land twice, P482 two pipelines, P483 no row and no beginning, P485
    another topic of that name), DecisionNeededError (P455) when it is not known what was lost.
    """
    target = _target(settings, environment, name)
    if reapply:
        _require_keys(target)
    chain = Chain(settings.pipeline, name)
    table = environment.catalogs[target.location.catalog].load(target.location.name)
    state = None if table is None else table.state(chain)
    if table is None or state is None or state.landed is None:
        raise InvalidError(
            f"{name} has no ledger of this pipeline",
            code="P461",
            hint="nothing has landed in it yet, or it was dropped; see  penstock status",
        )
    if state.verdict is Verdict.UNCERTAIN:
        raise rolled_back(name, state.evidence)
    positions = records_only(state.landed.offsets)
    require_single_pipeline(chain, table.ledgers(state), positions)
    known = {(at.topic, at.partition) for at in positions}
    for place in wanted:
        if place not in known:
            raise _nothing_of(name, *place)
    columns = source_columns(name, target.options)
    rows = TableRows(
        table, state, columns, table.file_sources(state, columns, dict.fromkeys(known, 0))
    )
    retried = _retried(settings, environment, chain, state.landed)
    ends = rows.ends(retried)
    log = environment.log
    bounds = log.bounds([at for at in log.partitions() if (at.topic, at.partition) in known])
    back = state.verdict is Verdict.ROLLED_BACK
    reach = SeekBounds(
        ends,
        table.history(chain).began,
        bounds,
        whole=back or not wanted,
        rolled_back=back,
        reapply=None if target.options.keyed is None else reapply,
    )
    moves = _moves(name, positions, wanted, reach)
    _require_added(name, moves, positions, state.landed.grown, reach)
    lost = _from_target(retried, positions, wanted, reach)
    return SeekPlan(chain, table, state, moves, lost if reapply else rows.absent(lost))


def seek(
    held: ExclusiveAccess,
    name: str,
    wanted: Wanted,
    context: WriteContext,
    *,
    reapply: bool = False,
) -> SeekPlan:
    """Plan and commit: what lost its row is opened again, then the ledger is put back.

    Killed in between, it is asked again: what is open stays so, and its row is not there. A
    rollback is fenced first: it may arm a request that brings such a row back (docs/design/0218).
    Raises what `plan_seek`, `commit_seek` and `QuarantineResolver.reopen` raise.
    """
    planned = plan_seek(held.settings, held.environment, name, wanted, reapply=reapply)
    if planned.reopened.num_rows and planned.state.verdict is Verdict.ROLLED_BACK:
        fence_rollback(planned.chain, planned.state, planned.table, held.claim.commit_context)
        planned = plan_seek(held.settings, held.environment, name, wanted, reapply=reapply)
    if planned.reopened.num_rows:
        quarantine = held.tables.quarantine
        chain = _rejects(held.settings, planned.chain)
        rejects = read_position(quarantine, chain, held.environment.cluster_id)
        QuarantineResolver(held, context, name).reopen(rejects, planned.reopened, ROW_GONE)
    if planned.moves or planned.state.verdict is Verdict.ROLLED_BACK:
        commit_seek(held, replace(planned, reopened=planned.reopened.slice(0, 0)))
    return planned


def commit_seek(held: ExclusiveAccess, planned: SeekPlan) -> None:
    """Put the ledger back, once, and drop what is pending for the table from before.

    Raises what `land_manual` raises.
    """
    assert not planned.reopened.num_rows, "what lost its row is opened again before"
    landed = planned.state.landed
    assert landed is not None, "its state was read"
    current = position_at(planned.table, planned.chain, planned.state)
    commit = commit_at(
        replace(current, segment=current.segment + 1),
        {},
        (),
        held.labels("seek", landed.rules_hash),
        kind=CommitKind.SEEK,
        nonce=f"seek:{planned.state.head}:{held.environment.token()}",
        origins={move.at: move.stop for move in planned.moves},
    )
    land_manual(commit, planned.state, planned.table, held.claim.commit_context)
    store, pipeline = held.environment.store, held.settings.pipeline
    for row in store.pending(pipeline):
        if row.chain == planned.chain:
            # The head has moved, so nothing of it that is in flight can land (protocol.md 3).
            store.settle(
                pipeline, held.claim.claim, row, landed=False, reason="the table was put back"
            )


def _target(settings: Settings, environment: Environment, name: str) -> TableTarget:
    targets, _, _ = opening.route_topics(settings, environment.log.partitions())
    fixed = {known: each for known, each in targets.items() if each.route is None}
    if name in targets and name not in fixed:
        raise InvalidError(
            f"{name} is fed record by record by a route, and cannot be put back",
            code="P474",
            hint="this release seeks in tables of a fixed name",
        )
    if name not in fixed:
        raise no_table(name, fixed)
    return fixed[name]


def _require_keys(target: TableTarget) -> None:
    if target.options.keyed is None:
        name = target.location.table
        raise InvalidError(
            f"{name} appends: its rows have no keys by which changes could be applied again",
            code="P268",
            hint=f"leave --reapply away, or:  penstock replay {name} TOPIC:PARTITION:START-END",
        )


def _nothing_of(name: str, topic: str, number: int) -> InvalidError:
    return InvalidError(
        f"{name} has landed nothing of {topic}:{number}",
        code="P472",
        hint="seek moves back over what has landed; see  penstock audit",
    )


def _moves(
    name: str, positions: Positions, wanted: Wanted, reach: SeekBounds
) -> tuple[PartitionMove, ...]:
    moves = []
    for at, current in sorted(positions.items()):
        place = (at.topic, at.partition)
        if not reach.whole and place not in wanted:
            continue
        if at not in reach.bounds:
            raise unlisted(name, at, reach.bounds)
        end = _end(at, current, reach)
        asked = wanted.get(place, end if current else current)
        if asked is None:
            raise start_unknown(name, at, f"penstock seek {name} {at.topic}:{at.partition}:0")
        _require_between(name, at, asked, current, reach)
        stop = Offset(min(max(asked, reach.bounds[at].start), current))
        expired = max(stop - asked, 0)
        if stop != current or expired:
            given_up = max(stop - (asked if end is None else end), 0)
            moves.append(PartitionMove(at, current, stop, given_up, expired))
    return tuple(moves)


def _require_added(
    name: str,
    moves: Sequence[PartitionMove],
    positions: Positions,
    grown: FormerEnds,
    reach: SeekBounds,
) -> None:
    """Raise InvalidError when changes from before a growth of the topic are to be applied again,
    and not those from behind it, which come after them.
    """
    asked = {move.at: move.stop for move in moves}
    stops = {**positions, **asked}
    for ends in reversed(grown):
        if not any(stop < ends.get(at, Offset(0)) for at, stop in asked.items()):
            continue
        for at, bounds in reach.bounds.items():
            end = end_in(ends, at)
            first = max(end or Offset(0), reach.began.get(at, Offset(0)), bounds.start)
            if end is not None and stops.get(at, first) > first:
                stops[at] = asked[at] = first
    if asked == {move.at: move.stop for move in moves}:
        return
    places = " ".join(f"{at.topic}:{at.partition}:{stop}" for at, stop in sorted(asked.items()))
    raise InvalidError(
        f"{name} would be put back to before partitions were added: changes from after that come "
        "after those that are applied again, and would be undone",
        code="P270",
        hint=f"put all of it back:  penstock seek --reapply {name} {places}",
    )


def _require_between(
    name: str, at: TopicPartition, asked: Offset, current: Offset, reach: SeekBounds
) -> None:
    first, end = reach.began.get(at), _end(at, current, reach)
    if asked > current:
        raise InvalidError(
            f"{name} is at {current} in {at}, and never moves forward",
            code="P472",
            hint=f'leave records out by the spec:  where: "_kafka_offset >= {asked}"',
        )
    if first is not None and asked < first:
        raise not_landed(name, f"{at} from {first} on, not from {asked}")
    if end is None or asked >= end or reach.reapply:
        return
    if reach.reapply is False:
        raise InvalidError(
            f"{name} holds rows of {at} up to offset {end - 1}: changes from {asked} on would be"
            " applied again, and rows go back to what they were until all have been",
            code="P264",
            hint=f"penstock seek --reapply {name} {at.topic}:{at.partition}:{asked}",
        )
    if reach.reapply is None:
        raise InvalidError(
            f"{name} holds rows of {at} up to offset {end - 1}: from {asked} on they would"
            " land twice",
            code="P479",
            hint=f"to land them again:  penstock replay {name} {at.topic}:{at.partition}:"
            f"{asked}-{current}",
        )


def _end(at: TopicPartition, current: Offset, reach: SeekBounds) -> Offset | None:
    """Return where the rows of a partition end; without rows, where the chain began if known.

    A retried row may be ahead of the position, which is never moved forward.
    """
    found = reach.ends.get((at.topic, at.partition))
    return reach.began.get(at) if found is None else Offset(min(found, current))


def _rejects(settings: Settings, chain: Chain) -> Chain:
    return Chain(f"{settings.pipeline}/{chain.table}", settings.quarantine.table)


def _retried(
    settings: Settings, environment: Environment, chain: Chain, landed: Landed
) -> pa.Table:
    """Return the statuses of the retried records that this table's ledger has followed."""
    followed = landed.offsets.get(resolutions_of(chain.table), Offset(0))
    place = settings.quarantine
    quarantine = environment.catalogs[place.catalog].load(place.name) if followed else None
    if quarantine is None:
        return status_of(())
    found = status_of(quarantine.read_quarantine(_rejects(settings, chain), READ))
    landed_here = pc.and_(pc.equal(found["into"], chain.table), pc.less(found["closing"], followed))
    return found.filter(pc.fill_null(landed_here, fill_value=False))


def _from_target(
    retried: pa.Table, positions: Positions, wanted: Wanted, reach: SeekBounds
) -> pa.Table:
    """Leave out what a seek does not cover: what is before the positions that it puts back to.

    After a rollback, what is before the end of the rows may be lost as well, because retries land
    late; only what is given up in between is left out.
    """
    meant = pa.array(np.zeros(retried.num_rows, np.bool_))
    for at, current in positions.items():
        place = (at.topic, at.partition)
        if not reach.whole and place not in wanted:
            continue
        end = _end(at, current, reach) or Offset(0)
        asked = wanted.get(place, end)
        here = pc.and_(
            pc.equal(retried["topic_id"], at.topic_id), pc.equal(retried["partition"], at.partition)
        )
        covered = pc.greater_equal(retried["offset"], asked)
        if reach.rolled_back:
            covered = pc.or_(covered, pc.less(retried["offset"], end))
        meant = pc.or_(meant, pc.and_(here, covered))
    return retried.filter(meant)
