"""`penstock replay` and `penstock seek`: land again what a table held, or holds no more.

Both first plan without writing and show what they would do; then, with exclusive access, they plan
again and do it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from penstock.app.assembly import engines
from penstock.app.inspect.read_only_world import open_world
from penstock.app.repair.confirmed_change import Change, Step, exclusive_change
from penstock.app.repair.quarantine import write_context
from penstock.core.errors import InvalidError
from penstock.core.offsets import Offset, OffsetRange, span
from penstock.landing.repair import replay as replaying
from penstock.landing.repair import seek as seeking
from penstock.landing.repair.access import ExclusiveAccess
from penstock.observe.fanout import UNHEARD
from penstock.observe.formatting import number_of
from penstock.ports.runtime import Observer
from penstock.ports.tables import Verdict
from penstock.spec.model import Pipeline

_PLACE = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+)(:(?P<partition>\d{1,9})(:(?P<start>\d{1,18})(?P<to>-(?P<stop>\d{1,18})?)?)?)?"
)
HERE_MAX = 1_000_000
"""Positions that this process reads in about the time in which Spark starts."""


@dataclass(frozen=True, slots=True)
class Place:
    """One place as a user writes it: `orders`, `orders:0`, `orders:0:100`, `orders:0:100-200`."""

    topic: str
    partition: int | None = None
    start: int | None = None
    stop: int | None = None


def place_of(text: str) -> Place:
    """Read a place. Raises InvalidError (P172)."""
    found = _PLACE.fullmatch(text)
    if found is None or (found["stop"] and int(found["stop"]) <= int(found["start"])):
        raise InvalidError(
            f"{text[:120]!r} is not a place in a topic",
            code="P172",
            hint="orders, orders:0, orders:0:100-200 (200 not included), or orders:0:100 to seek"
            " to",
        )
    numbers = {key: int(value) for key in ("partition", "start", "stop") if (value := found[key])}
    return Place(found["topic"], **numbers)


def plan_replay(
    pipeline: Pipeline, table: str, places: Sequence[Place], observer: Observer = UNHEARD
) -> Change:
    """Return what a replay would do. Writes nothing. Raises as `landing.repair.replay`."""
    with open_world(pipeline, observer=observer) as world:
        progress = world.progress_of(table)
        planned = replaying.plan_replay(progress, ranges_of(places), world.bounds)
    rows, files = number_of(planned.rows, "row"), number_of(len(planned.files), "file")
    steps = [
        Step(f"{table}: {at}{covered} is landed again")
        for at, covered in sorted(planned.ranges.items())
    ]
    steps += by_workers(pipeline, planned)
    if planned.ranges:
        replaced = f"{table}: {rows} in {files} are replaced, in one commit, by what Kafka holds"
        steps.append(Step(replaced, destructive=bool(planned.rows)))
    return Change(pipeline.name, tuple(steps))


def replay(
    pipeline: Pipeline,
    table: str,
    places: Sequence[Place],
    *,
    new_rows: bool = False,
    observer: Observer = UNHEARD,
) -> replaying.Replayed:
    """Land a stretch again; `new_rows`: also records that have no row now.

    A small stretch is read in this process, a large one by the spec's engine (docs/design/0170).
    Raises UnavailableError (P510) while a run is alive, and as `landing.repair.replay`.
    """
    with exclusive_change(pipeline, observer) as held, ExitStack() as stack:
        progress = held.settle_pending(table)
        bounds = held.environment.log.bounds(held.environment.log.partitions())
        planned = replaying.plan_replay(progress, ranges_of(places), bounds)
        able = able_to_read(held, pipeline, planned.positions, stack)
        return replaying.land_again(able, progress, planned, new_rows=new_rows)


def by_workers(pipeline: Pipeline, planned: replaying.Replacement) -> list[Step]:
    """Say who reads many positions; nothing of few."""
    if planned.positions <= HERE_MAX:
        return []
    where = f"by the workers of spark.master {pipeline.spark.master}"
    return [Step(f"{planned.table}: {planned.positions:,} positions are read, {where}")]


def able_to_read(
    held: ExclusiveAccess, pipeline: Pipeline, positions: int, stack: ExitStack
) -> ExclusiveAccess:
    """Return a hold whose engine reads so many positions; the stack closes what is opened."""
    if positions <= HERE_MAX:
        return held
    engine = engines.open_engine(pipeline)
    stack.callback(engine.close)
    return replace(held, environment=replace(held.environment, engine=engine))


def plan_seek(
    pipeline: Pipeline,
    table: str,
    places: Sequence[Place],
    *,
    reapply: bool = False,
    observer: Observer = UNHEARD,
) -> Change:
    """Return what a seek would do. Writes nothing. Raises as `landing.repair.seek`."""
    wanted = positions_of(places)
    with open_world(pipeline, observer=observer) as world:
        planned = seeking.plan_seek(
            world.settings, world.environment, table, wanted, reapply=reapply
        )
    steps = []
    for move in planned.moves:
        steps.append(Step(f"{table}: {move.at} is put back from {move.start} to {move.stop}"))
        if move.given_up:
            expired = f", {move.expired} of them no longer in Kafka" if move.expired else ""
            text = f"{table}: {number_of(move.given_up, 'position')} without a row stay so{expired}"
            steps.append(Step(text, destructive=True))
    if planned.reopened.num_rows:
        reopened = number_of(planned.reopened.num_rows, "retried record")
        why = "whose changes may be undone" if reapply else "without a row"
        steps.append(Step(f"{table}: {reopened} {why}, open again for  quarantine retry"))
    if planned.state.verdict is Verdict.ROLLED_BACK:
        steps.append(Step(f"{table}: it goes on from there, and the rollback is accepted"))
    return Change(pipeline.name, tuple(steps))


def seek(
    pipeline: Pipeline, table: str, places: Sequence[Place], *, reapply: bool = False
) -> tuple[seeking.PartitionMove, ...]:
    """Put a table's ledger back. Raises UnavailableError (P510) while a run is alive."""
    with exclusive_change(pipeline) as held:
        wanted, context = positions_of(places), write_context(pipeline)
        return seeking.seek(held, table, wanted, context, reapply=reapply).moves


def ranges_of(places: Sequence[Place]) -> dict[tuple[str, int | None], OffsetRange | None]:
    """Return the ranges to replay. Raises InvalidError (P172) for an offset without an end."""
    found: dict[tuple[str, int | None], OffsetRange | None] = {}
    for place in places:
        if place.start is not None and place.stop is None:
            raise InvalidError(
                f"{place.topic}:{place.partition}:{place.start} is a position, and replay takes"
                " ranges",
                code="P172",
                hint=f"{place.topic}:{place.partition}:{place.start}-END, END not included",
            )
        covered = None if place.stop is None else span(place.start or 0, place.stop)
        found[place.topic, place.partition] = covered
    return found


def positions_of(places: Sequence[Place]) -> dict[tuple[str, int], Offset]:
    """Return the offsets to set partitions back to. Raises InvalidError (P172) for a range."""
    found = {}
    for place in places:
        if place.partition is None or place.start is None or place.stop is not None:
            raise InvalidError(
                "seek takes positions",
                code="P172",
                hint=f"{place.topic}:0:OFFSET; without places, to the end of its rows",
            )
        found[place.topic, place.partition] = Offset(place.start)
    return found
