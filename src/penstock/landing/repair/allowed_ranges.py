"""Ranges that a replay or seek may reach: where a chain began, which rows it has, what is read.

Invariants:
- nothing before a chain's first position is its own: it is neither replayed nor sought;
- where the first position is not recorded any more, rows show it, or a person gives it;
- rows know topics by their names alone, so what two chains landed from one partition, or what came
  from two topics of one name, is refused: it cannot be distinguished.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.core.commits import Chain, Landed
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.core.offsets import OffsetRange, Positions, Progress, TopicPartition, span
from penstock.core.planning import Bounds

Bounded = Mapping[TopicPartition, Bounds]
Requested = Mapping[tuple[str, int | None], OffsetRange | None]
Places = Mapping[tuple[str, int], int]


def require_single_pipeline(
    chain: Chain, ledgers: Iterable[Landed], known: Collection[TopicPartition]
) -> None:
    """Raise InvalidError (P482) when another pipeline has landed one of the partitions in it.

    A sibling shard has others of the same topic: these rows say by their partition whose they are.
    """
    places = {(name, at.partition) for at in known for name in (at.topic, at.topic_id)}
    for landed in of_others(chain, ledgers):
        shared = [
            at.topic
            for at in landed.offsets
            if places & {(at.topic, at.partition), (at.topic_id, at.partition)}
        ]
        if shared:
            raise InvalidError(
                f"{chain.table}: pipeline {landed.chain} lands {shared[0]} in it too, and rows do"
                " not say which pipeline wrote them",
                code="P482",
                hint="let each pipeline land in a table of its own",
            )


def of_others(chain: Chain, ledgers: Iterable[Landed]) -> list[Landed]:
    """Return the ledgers of other pipelines that land in the table of a chain."""
    return [
        each
        for each in ledgers
        if each.chain != chain.name and not Chain(each.chain, "").is_quarantine
    ]


def resolve_partitions(
    table: str, landed: Positions, wanted: Requested
) -> dict[TopicPartition, OffsetRange | None]:
    """Find the partitions that are asked for. Raises InvalidError (P472) where nothing landed."""
    found: dict[TopicPartition, OffsetRange | None] = {}
    for (topic, number), covered in wanted.items():
        these = [at for at in landed if at.topic == topic and number in (None, at.partition)]
        if not these:
            place = topic if number is None else f"{topic}:{number}"
            raise not_landed(table, f"nothing of {place}")
        found.update(dict.fromkeys(these, covered))
    return found


def bounded_ranges(
    table: str,
    landed: Positions,
    asked: Mapping[TopicPartition, OffsetRange | None],
    began: Positions,
    rows: Places,
) -> dict[TopicPartition, OffsetRange]:
    """Bound what is asked for by what has landed, from where the chain began or its `rows` do.

    Raises InvalidError (P472 not landed, P483 where the chain began is unknown).
    """
    stretch: dict[TopicPartition, OffsetRange] = {}
    for at, covered in asked.items():
        first = began.get(at)
        if covered is None:
            start = rows.get((at.topic, at.partition)) if first is None else first
            if start is None and landed[at]:
                raise start_unknown(
                    table, at, f"penstock replay {table} {at.topic}:{at.partition}:0-{landed[at]}"
                )
            stretch[at] = span(min(start or 0, landed[at]), landed[at])
            continue
        if covered.stop > landed[at]:
            raise not_landed(table, f"{at} up to {landed[at]}, not to {covered.stop}")
        if first is not None and covered.start < first:
            raise not_landed(table, f"{at} from {first} on, not from {covered.start}")
        stretch[at] = covered
    return {at: covered for at, covered in stretch.items() if covered.count}


def require_readable(name: str, stretch: Progress, bounds: Bounded) -> None:
    """Raise InvalidError (P478) where Kafka has no longer all of a stretch, and as `unlisted`."""
    for at, covered in stretch.items():
        found = bounds.get(at)
        if found is None:
            raise unlisted(name, at, bounds)
        if found.start > covered.start:
            raise InvalidError(
                f"{name}: {at} offsets {covered.start} to {found.start} are no longer in"
                " Kafka, and would be lost from the table",
                code="P478",
                hint=f"replay what Kafka has:  {at.topic}:{at.partition}:{found.start}-"
                f"{covered.stop}",
            )


def start_unknown(table: str, at: TopicPartition, example: str) -> InvalidError:
    """Build the error for a partition without rows and with an unknown start."""
    return InvalidError(
        f"{table} holds no row of {at}, and its history no longer shows where it started",
        code="P483",
        hint=f"say it:  {example}  where 0 is the first offset that was to land",
    )


def not_landed(table: str, what: str) -> InvalidError:
    """Build the error that names what has landed instead of what is asked for."""
    return InvalidError(
        f"{table} has landed {what}",
        code="P472",
        hint="what has landed lands again, and nothing else; see  penstock audit",
    )


def unlisted(table: str, at: TopicPartition, bounds: Bounded) -> PenstockError:
    """Build the error for a partition that cannot be read: another topic, or no leader."""
    if any(each.topic == at.topic and each.topic_id != at.topic_id for each in bounds):
        return InvalidError(
            f"{table} has landed {at} of a topic that was deleted; another has its name now, and"
            " rows do not say which of the two they came from",
            code="P485",
            hint=f"land {at.topic} into a table of another name; what is here stays",
        )
    return UnavailableError(
        f"{at} cannot be listed: no leader, or the topic is no longer in Kafka or in the spec",
        code="P250",
        hint="bring the partition's broker back, or the topic into the spec, then run again",
    )
