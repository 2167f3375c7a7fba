"""Where a table begins to read a partition that its ledger does not know.

Invariant: a start position is in a ledger before the first record after it is read
(failure-modes.md C4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import ChainPosition
from penstock.commit.creation import begin
from penstock.core.commits import Landed, begun_count
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.events import TopicsGrew
from penstock.core.growth import former_partitions
from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.core.resolutions import records_only
from penstock.core.shards import Shard
from penstock.landing.settings import Environment, Settings
from penstock.landing.tables.log_checks import check_recreated
from penstock.landing.tables.opening import Listing, quarantined_by
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.quarantined_offsets import EMPTY
from penstock.ports.log import Log


def write_missing_starts(
    settings: Settings,
    environment: Environment,
    table: TableProgress,
    wanted: Listing,
    context: CommitContext,
    *,
    route: TableProgress | None = None,
) -> TableProgress:
    """Write start positions for partitions the table's ledger does not know yet.

    `wanted` are the partitions of all shards: who begins first writes where all of them begin.
    A table of a route begins at the route's durable position: what is below was decided without it.
    Once it has begun, what is new to it is new to its route as well, or was decided with it known:
    it takes that from the start, as every table does.
    """
    own, shard = table.expected, settings.shard
    if all(at in own for at in filter(shard.takes, wanted)):
        return table
    chain = table.position or table.quarantine
    family = family_ledgers(shard, chain)
    known = {**family_positions(family), **own}
    fresh = [at for at in wanted if at not in known]
    require_known_ledger(table.name, known, wanted)
    if "topic" not in settings.accept:
        check_recreated([(table.name, known)], fresh)
    if route is None or own:
        chosen = start_positions(settings, environment, known, fresh)
    else:
        chosen = dict(route.expected)
    ends: Positions = {}
    if table.target.options.keys:
        chosen, ends = with_former_ends(environment.log, known, chosen)
    landed = family.get(chain.chain.name)
    if chosen:
        landed = begin(
            chain.table,
            chain.chain,
            {at: offset for at, offset in chosen.items() if shard.takes(at)},
            cluster_id=environment.cluster_id,
            rules_hash=settings.rules_hash,
            context=context,
            ends=ends,
            beside=_beside(shard, family, chosen),
            begun=begun_count(family, filter(None, family.values())),
        )
    if landed is None:
        return table
    if ends:
        environment.observer(TopicsGrew(table.name, len(chosen)))
    if route is not None and not own:
        route.quarantine.recheck(context)
    begun_now = {*chosen, *filter(shard.takes, wanted)} & landed.offsets.keys() - own.keys()
    origins = {at: landed.offsets[at] for at in sorted(begun_now)}
    return _begun(table.with_chain(chain.begun(origins, landed)), origins, route)


def _begun(table: TableProgress, origins: Positions, route: TableProgress | None) -> TableProgress:
    """Return a table whose chain has begun in some partitions, as it goes on."""
    begun = replace(
        table,
        examined={**table.examined, **origins},
        start_offsets=table.start_offsets if table.position else {**table.start_offsets, **origins},
    )
    rejected = EMPTY | quarantined_by(begun.quarantine, begun)
    if route is not None:
        rejected |= quarantined_by(route.quarantine, begun)
    return replace(begun, quarantined=rejected)


def family_ledgers(shard: Shard, chain: ChainPosition) -> dict[str, Landed | None]:
    """Return the ledgers of the chains of all shards beside a chain, by their names and in the
    order of their numbers; none without shards. Raises UnavailableError, InvalidError.
    """
    if shard.count == 1:
        return {}
    found = {each.chain: each for each in chain.table.ledgers(chain.read())}
    return {name: found.get(name) for name in shard.siblings_of(chain.chain.name)}


def family_positions(family: Mapping[str, Landed | None]) -> dict[TopicPartition, Offset]:
    """Return the positions that any of the shards' ledgers has."""
    return {
        at: offset
        for landed in family.values()
        if landed is not None
        for at, offset in records_only(landed.offsets).items()
    }


def _beside(
    shard: Shard, family: Mapping[str, Landed | None], chosen: Positions
) -> dict[str, Positions]:
    """Return which of some start positions are those of the other shards' chains."""
    others = {name: replace(shard, number=number) for number, name in enumerate(family)}
    return {
        name: {at: offset for at, offset in chosen.items() if other.takes(at)}
        for name, other in others.items()
        if other != shard
    }


def with_former_ends(
    log: Log, known: Positions, chosen: Positions
) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, Offset]]:
    """Return start positions, and the ends of former partitions where topics were given new ones.

    All that the log has counts, also what a transaction holds back: it was there before. A topic
    waits until all of its former partitions have a leader.
    """
    former = former_partitions(known, chosen)
    bounds = log.bounds(former) if former else {}
    silent = {at.topic_id for at in former if at not in bounds}
    ready = {at: offset for at, offset in chosen.items() if at.topic_id not in silent}
    return ready, {at: bounds[at].high for at in former if at.topic_id not in silent}


def require_known_ledger(table: str, known: Positions, wanted: Listing) -> None:
    """Raise InvalidError when a ledger of our name knows nothing of what we read
    (failure-modes.md F4).
    """
    read = {each for at in wanted for each in (at.topic, at.topic_id)}
    if known and wanted and not read & {each for at in known for each in (at.topic, at.topic_id)}:
        names = ", ".join(sorted({at.topic for at in known}))
        raise InvalidError(
            f"table {table} is fed by another pipeline of the same name, from {names}",
            code="P458",
            hint="give this pipeline another name in the spec",
        )


def start_positions(
    settings: Settings, environment: Environment, known: Positions, fresh: Listing
) -> dict[TopicPartition, Offset]:
    """Decide where to begin: a new partition of a known topic at 0, a topic found later at
    earliest, and everything at the very first start where the spec says.

    A topic found later waits until all of its partitions have a leader. Raises UnavailableError
    when one has none at the very first start: where to begin must be known for sure. Raises
    InvalidError (P125) for an offset of the spec after the end of its log: in a ledger it would
    look like a log that was cut, whatever the spec says later.
    """
    topics = {at.topic_id for at in known}
    added = {at: Offset(0) for at in fresh if at.topic_id in topics}
    found = [at for at in fresh if at.topic_id not in topics]
    bounds = environment.log.bounds(found) if found else {}
    absent = [at for at in found if at not in bounds]
    if known:
        waiting = {at.topic_id for at in absent}
        later = {at: bounds[at].start for at in found if at.topic_id not in waiting}
        return {**added, **later}
    if absent:
        raise UnavailableError(
            f"{', '.join(map(str, absent[:3]))} cannot be listed: no leader",
            code="P250",
            hint="bring the partition's broker back, then run again",
        )
    match settings.start:
        case "earliest":
            return {at: bounds[at].start for at in fresh}
        case "latest":
            return {at: bounds[at].stop for at in fresh}
        case int(timestamp_ms):
            return dict(environment.log.positions_at(fresh, timestamp_ms))
        case offsets:
            given = {
                at: offsets[at.topic][at.partition]
                for at in fresh
                if at.partition in offsets.get(at.topic, {})
            }
            for at, offset in given.items():
                if offset > bounds[at].high:
                    raise InvalidError(
                        f"{offset} is not a place to start: {at} ends at {bounds[at].high}",
                        code="P125",
                        hint="write an offset that the log has under  kafka.start , or leave the"
                        " partition out",
                    )
            return {at: Offset(given.get(at, bounds[at].start)) for at in fresh}
