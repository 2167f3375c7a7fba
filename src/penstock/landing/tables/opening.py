"""Find where every table stands before anything is read: ledgers, start positions, identities.

Invariants:
- a start position is in a ledger before the first record behind it is read (failure-modes.md C4);
- a topic that was re-created, a cluster that is another one, a log that no longer reaches back to
  where a table stands: each stops with what was found, and nothing is skipped in silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.commit.creation import begin, create
from penstock.commit.land import CommitContext, other_cluster, rolled_back
from penstock.core.claims import Claim, Generation
from penstock.core.commits import Chain, Landed
from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.core.planning import Bounds
from penstock.core.resolutions import records_only
from penstock.landing.settings import Environment, Settings, TableTarget
from penstock.landing.tables.progress import ChainPosition, TableProgress
from penstock.landing.tables.quarantined_offsets import EMPTY
from penstock.ports.tables import Table, TableDefinition, TableState, Verdict
from penstock.rows.cast.case_insensitive import require_distinct

Listing = Sequence[TopicPartition]
RETENTION = "P252"


def route_topics(
    settings: Settings, partitions: Listing
) -> tuple[dict[str, TableTarget], dict[str, list[TopicPartition]], list[str]]:
    """Return targets by table, partitions by table, and the topics that no table takes."""
    routes = settings.routes(sorted({at.topic for at in partitions}))
    targets: dict[str, TableTarget] = {}
    for found in routes.values():
        for target in found:
            before = targets.setdefault(target.location.table, target)
            if target.filters and before is not target:
                gates = {**before.filters, **target.filters}
                targets[before.location.table] = replace(before, filters=gates)
    fixed = {settings.quarantine.table, *(n for n, each in targets.items() if not each.is_route)}
    targets = {name: target.reserving(fixed) for name, target in targets.items()}
    wanted: dict[str, list[TopicPartition]] = defaultdict(list)
    for at in partitions:
        for target in routes[at.topic]:
            wanted[target.location.table].append(at)
    return targets, dict(wanted), sorted(topic for topic, found in routes.items() if not found)


def open_quarantine(settings: Settings, world: Environment) -> Table:
    """Return the quarantine table, created when it is not there."""
    place = settings.quarantine
    catalog = world.catalogs[place.catalog]
    if (table := catalog.load(place.name)) is not None:
        return table
    definition = TableDefinition(settings.quarantine_schema)
    return create(catalog, (place.table, place.name), definition, (), world.observer)


def open_table(
    settings: Settings, world: Environment, target: TableTarget, quarantine: Table
) -> TableProgress:
    """Read where a table and its quarantine chain stand. Writes nothing.

    Raises UnavailableError, InvalidError or DecisionNeededError about this table alone.
    """
    place = target.location
    own, rejects = _chains(settings, target)
    track = TableProgress(target, own, chain_position_in(quarantine, rejects, world))
    table = world.catalogs[place.catalog].load(place.name)
    if table is None:
        if not target.create:
            raise table_absent(place.table)
        track.start_offsets = dict(track.quarantine.expected)
        track.examined = dict(track.quarantine.expected)
        return track
    attach_table(track, table, world)
    assert track.position is not None, "it was adopted"
    track.examined = dict(track.position.expected)
    track.quarantined = EMPTY | quarantined_by(track.quarantine, track)
    return track


def open_route(
    settings: Settings, world: Environment, target: TableTarget, quarantine: Table
) -> TableProgress:
    """Read where a route stands: its own chain is the quarantine's, for no rows land in it.

    Below where it stands, every record's table is there, with a ledger, or the record is refused.
    Raises like `open_table`.
    """
    _, chain = _chains(settings, target)
    state = quarantine.state(chain)
    standing = _chain_position(quarantine, chain, state, world)
    track = TableProgress(target, chain, standing, position=standing, state=state)
    if state.landed is not None:
        track.valid_through_ms = state.landed.valid_through_ms
        track.leader_epochs = dict(state.landed.leader_epochs)
    track.examined = dict(standing.expected)
    return track


def chains(
    settings: Settings, world: Environment, target: TableTarget, quarantine: Table
) -> list[tuple[Chain, Table]]:
    """Return the chains of a target with the tables they are in, as far as these are there."""
    own, rejects = _chains(settings, target)
    if target.is_route:
        return [(rejects, quarantine)]
    table = world.catalogs[target.location.catalog].load(target.location.name)
    return [(rejects, quarantine), *([(own, table)] if table is not None else [])]


def _chains(settings: Settings, target: TableTarget) -> tuple[Chain, Chain]:
    name = target.location.table
    rejects = Chain(f"{settings.pipeline}/{name}", settings.quarantine.table)
    return Chain(settings.pipeline, name), rejects


def attach_table(track: TableProgress, table: Table, world: Environment) -> None:
    """Read where an existing table stands. Raises like `open_table`."""
    state = table.state(track.chain)
    require_columns(track.target, state)
    track.position = _chain_position(table, track.chain, state, world)
    track.state = state
    if state.landed is not None:
        track.valid_through_ms = state.landed.valid_through_ms
        track.leader_epochs = dict(state.landed.leader_epochs)


def table_absent(table: str) -> InvalidError:
    """Build the error for a table that does not exist and may not be created."""
    return InvalidError(
        f"table {table} does not exist",
        code="P456",
        hint="create it, or let Penstock do so with  schema: {create: true}",
    )


def require_columns(target: TableTarget, state: TableState) -> None:
    """Raise InvalidError when the table lacks a column that Penstock is to fill."""
    lacking = [
        column
        for column in target.options.source_columns.values()
        if state.schema.field(column) is None
    ]
    if lacking:
        raise InvalidError(
            f"table {target.location.table} has no column {', '.join(lacking)}",
            code="P457",
            hint="add the column, or list the source columns it has:  source_columns: []",
        )
    if not target.options.case_sensitive:
        require_distinct(state.schema, target.location.table)


def chain_position_in(table: Table, chain: Chain, world: Environment) -> ChainPosition:
    """Read where a chain stands in its table. Raises like `open_table`."""
    return _chain_position(table, chain, table.state(chain), world)


def _chain_position(
    table: Table, chain: Chain, state: TableState, world: Environment
) -> ChainPosition:
    if state.verdict in (Verdict.ROLLED_BACK, Verdict.UNCERTAIN):
        raise rolled_back(chain.table, state.evidence, quarantine=chain.is_quarantine)
    landed = state.landed
    if landed is not None and landed.cluster_id != world.cluster_id:
        raise other_cluster(chain.table, landed.cluster_id, world.cluster_id)
    return ChainPosition(
        chain=chain,
        table=table,
        uuid=state.uuid,
        segment=0 if landed is None else landed.segment,
        schema_id=state.schema_id,
        last_claim=claim_in(landed),
        expected={} if landed is None else records_only(landed.offsets),
    )


def claim_in(landed: Landed | None) -> Claim:
    """Return the claim that landed last in a chain; the lowest there is where nothing did."""
    return Claim(Generation(0), "") if landed is None else landed.claim


def quarantined_by(rejects: ChainPosition, track: TableProgress) -> frozenset[tuple[str, int, int]]:
    """Look up what of the stretch that a table reads again is in quarantine: its fate is final.

    `rejects` is the table's own quarantine chain, or that of the route that leads to it. Raises
    UnavailableError.
    """
    ahead = [
        [at.topic_id, at.partition, at.topic, track.examined[at], stop]
        for at, stop in rejects.expected.items()
        if at in track.examined and track.examined[at] < stop
    ]
    return frozenset(rejects.table.quarantined(rejects.chain, ahead)) if ahead else frozenset()


def write_missing_starts(
    settings: Settings,
    world: Environment,
    track: TableProgress,
    wanted: Listing,
    conditions: CommitContext,
    *,
    route: TableProgress | None = None,
) -> None:
    """Write start positions for partitions the table's ledger does not know yet.

    A table of a route begins where the route durably stands: what is below was judged without it.
    Once it has begun, what is new to it is new to its route as well, or was judged with it known:
    it takes that from the start, as every table does.
    """
    known = track.expected
    fresh = [at for at in wanted if at not in known]
    if not fresh:
        return
    require_known_ledger(track.name, known, wanted)
    if "topic" not in settings.accept:
        check_recreated([track], fresh)
    if route is None or known:
        chosen = start_positions(settings, world, known, fresh)
    else:
        chosen = dict(route.expected)
    if not chosen:
        return
    standing = track.position or track.quarantine
    origins = begin(
        standing.table,
        standing.chain,
        chosen,
        cluster_id=world.cluster_id,
        rules_hash=settings.rules_hash,
        conditions=conditions,
    )
    if route is not None and not known:
        route.quarantine.recheck(conditions)
    standing.expected.update(origins)
    track.examined.update(origins)
    track.quarantined = EMPTY | quarantined_by(track.quarantine, track)
    if route is not None:
        track.quarantined |= quarantined_by(route.quarantine, track)
    if track.position is None:
        track.start_offsets.update(origins)


def adopt_spec(
    settings: Settings, world: Environment, track: TableProgress, conditions: CommitContext
) -> None:
    """Write the present rules into a table's ledger; it moves nothing."""
    standing = track.position
    assert standing is not None, "a table that was fed by other rules exists"
    write_claim(standing.table, standing.chain, world, settings.rules_hash, conditions)
    track.state = standing.table.state(standing.chain)


def take_over_chains(
    settings: Settings, world: Environment, track: TableProgress, conditions: CommitContext
) -> bool:
    """Write our claim into the chains of a table that have not seen it; tell whether one had not.

    What others prepared for them can land no more. It moves nothing, and keeps the rules.
    """
    landed = track.state.landed if track.state else None
    rules_hash = landed.rules_hash if landed and landed.rules_hash else settings.rules_hash
    strange = [each for each in track.positions if each.last_claim != conditions.claim]
    for each in strange:  # the quarantine's first: what the table's own chain says is of both
        write_claim(each.table, each.chain, world, rules_hash, conditions)
    return bool(strange)


def write_claim(
    table: Table, chain: Chain, world: Environment, rules_hash: str, conditions: CommitContext
) -> None:
    """Write our claim into a chain: it moves nothing, and what others prepared lands no more."""
    begin(
        table,
        chain,
        {},
        cluster_id=world.cluster_id,
        rules_hash=rules_hash,
        conditions=conditions,
    )


def require_known_ledger(table: str, known: Positions, wanted: Listing) -> None:
    """Raise InvalidError when a ledger of our name has none of our topics (failure-modes.md F4)."""
    if known and wanted and not {at.topic for at in known} & {at.topic for at in wanted}:
        names = ", ".join(sorted({at.topic for at in known}))
        raise InvalidError(
            f"table {table} is fed by another pipeline of the same name, from {names}",
            code="P458",
            hint="give this pipeline another name in the spec",
        )


def start_positions(
    settings: Settings, world: Environment, known: Positions, fresh: Listing
) -> dict[TopicPartition, Offset]:
    """Decide where to begin: a new partition of a known topic at 0, a topic found later at
    earliest, and everything at the very first start where the spec says.

    A topic found later waits until all of its partitions have a leader. Raises UnavailableError
    when one has none at the very first start: where to begin must be known for sure.
    """
    topics = {at.topic_id for at in known}
    added = {at: Offset(0) for at in fresh if at.topic_id in topics}
    found = [at for at in fresh if at.topic_id not in topics]
    bounds = world.log.bounds(found) if found else {}
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
    return first_positions(settings, world, found, bounds)


def first_positions(
    settings: Settings, world: Environment, fresh: Listing, bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, Offset]:
    """Apply the spec's `start`."""
    match settings.start:
        case "earliest":
            return {at: bounds[at].start for at in fresh}
        case "latest":
            return {at: bounds[at].stop for at in fresh}
        case int(timestamp_ms):
            return dict(world.log.positions_at(fresh, timestamp_ms))
        case offsets:
            given = {
                at: offsets[at.topic][at.partition]
                for at in fresh
                if at.partition in offsets.get(at.topic, {})
            }
            return {at: Offset(given.get(at, bounds[at].start)) for at in fresh}


def check_recreated(tracks: Iterable[TableProgress], listing: Listing) -> None:
    """Raise DecisionNeededError when a topic was created again (failure-modes.md K7)."""
    now = {at.topic: at.topic_id for at in listing}
    for track in tracks:
        mine = {at.topic_id for at in track.expected}
        for at in track.expected:
            other = now.get(at.topic)
            if other is not None and other not in mine:
                raise DecisionNeededError(
                    f"topic {at.topic} was deleted and created again: {track.name} was fed from "
                    f"id {at.topic_id}, the topic is {other} now",
                    code="P251",
                    hint="to land the new topic from its beginning:  penstock run --accept topic",
                )


def check_truncated(
    track: TableProgress, bounds: Mapping[TopicPartition, Bounds]
) -> DecisionNeededError | None:
    """Return the error when the log no longer holds a table's position, or was truncated."""
    for at, offset in sorted(track.examined.items()):
        found = bounds.get(at)
        if found is None:
            continue
        if found.start > offset:
            return DecisionNeededError(
                f"{track.name}: {at} offsets {offset} to {found.start} are gone from Kafka "
                f"(retention), {found.start - offset} positions",
                code=RETENTION,
                hint="to continue after the gap and record it:  penstock run --accept gap",
            )
        if found.high < offset:
            return DecisionNeededError(
                f"{track.name}: {at} ends at {found.high}, but {offset} landed: it was truncated",
                code="P253",
                hint="unclean leader election lost records the table holds: see the brokers' logs",
            )
    return None
