"""Small prepared commits, ledgers and rows for contract suites and tests.

Invariants:
- everything is a value: equal arguments give equal results, but for `attempt` and `nonce`;
- ids are derived as the pipeline derives them, so the same ranges give the same commit.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.core.accounting import Tally
from penstock.core.claims import Claim, Generation
from penstock.core.commits import (
    Chain,
    CommitKind,
    Committable,
    DataFile,
    EpochNumber,
    Landed,
    commit_id_of,
    first_ledger,
    landed_after,
)
from penstock.core.offsets import Offset, Positions, Progress, TopicPartition, span
from penstock.core.schema import Field, Kind, Schema, Struct

CLUSTER = "cluster-1"
TOPIC = "orders"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
RULES = "rules-1"

ORDERS: Schema = Struct(
    (
        Field("id", Kind.LONG),
        Field("name", Kind.STRING),
        Field("_kafka_topic", Kind.STRING),
        Field("_kafka_partition", Kind.INT),
        Field("_kafka_offset", Kind.LONG),
    )
)
QUARANTINE: Schema = Struct(
    (
        Field("pipeline", Kind.STRING),
        Field("table", Kind.STRING),
        Field("topic", Kind.STRING),
        Field("topic_id", Kind.STRING),
        Field("partition", Kind.INT),
        Field("offset", Kind.LONG),
        Field("code", Kind.STRING),
    )
)


def part(partition: int, topic_id: str = TOPIC_ID) -> TopicPartition:
    """Name a partition of the one topic these commits come from."""
    return TopicPartition(topic_id, partition, TOPIC)


def progress(ranges: Mapping[int, tuple[int, int]]) -> Progress:
    """Return ranges by partition number: `{0: (0, 10)}`."""
    return {part(number): span(start, stop) for number, (start, stop) in ranges.items()}


def positions(offsets: Mapping[int, int]) -> Positions:
    """Return positions by partition number: `{0: 10}`."""
    return {part(number): Offset(offset) for number, offset in offsets.items()}


def claim(generation: int = 1, owner: str = "") -> Claim:
    """Return a claim; its owner is named after the generation by default."""
    return Claim(Generation(generation), owner or f"owner-{generation}")


def origin(chain: Chain, offsets: Mapping[int, int], held: Claim | None = None) -> Landed:
    """Return the ledger a table is created with."""
    return first_ledger(chain, held or claim(), CLUSTER, RULES, positions(offsets))


def orders(ranges: Mapping[int, tuple[int, int]]) -> list[dict[str, Any]]:
    """Return a row of the schema `ORDERS` for each offset; `id` is `partition * 1000 + offset`."""
    return [
        {
            "id": number * 1000 + offset,
            "name": f"order {offset}",
            "_kafka_topic": TOPIC,
            "_kafka_partition": number,
            "_kafka_offset": offset,
        }
        for number, (start, stop) in sorted(ranges.items())
        for offset in range(start, stop)
    ]


def rejects(chain: Chain, coordinates: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return rows of the schema `QUARANTINE` for `(partition, offset)` of a chain's table."""
    pipeline, _, table = chain.name.partition("/")
    return [
        {
            "pipeline": pipeline,
            "table": table,
            "topic": TOPIC,
            "topic_id": TOPIC_ID,
            "partition": number,
            "offset": offset,
            "code": "P301",
        }
        for number, offset in coordinates
    ]


def prepared(
    chain: Chain,
    ranges: Mapping[int, tuple[int, int]],
    *,
    files: Sequence[DataFile] = (),
    uuid: str = "uuid-1",
    held: Claim | None = None,
    epoch: int = 1,
    attempt: str = "a1",
    nonce: str = "",
    kind: CommitKind | None = None,
    origins: Mapping[int, int] | None = None,
    schema_id: int = 0,
    valid_through_ms: int | None = None,
) -> Committable:
    """Prepare a commit: an append with files, an anchor without, unless a kind is given."""
    covered = progress(ranges)
    held = held or claim()
    return Committable(
        chain=chain,
        table_uuid=uuid,
        segment=0,
        commit_id=commit_id_of(chain, uuid, 0, covered, nonce=nonce),
        attempt=attempt,
        generation=held.generation,
        owner=held.owner,
        cluster_id=CLUSTER,
        epoch=EpochNumber(epoch),
        kind=kind or (CommitKind.APPEND if files else CommitKind.ANCHOR),
        progress=covered,
        files=tuple(replace(file, ranges=covered) for file in files),
        rules_hash=RULES,
        schema_id=schema_id,
        valid_through_ms=valid_through_ms,
        origins=positions(origins or {}),
        tallies={at: Tally(reach.count, reach.count) for at, reach in covered.items()},
    )


def fence(chain: Chain, *, uuid: str, held: Claim | None = None, nonce: str = "f1") -> Committable:
    """Prepare a fence: it moves the head of the table and nothing else."""
    return prepared(chain, {}, uuid=uuid, held=held, nonce=nonce, kind=CommitKind.FENCE)


def ledger_after(first: Landed, *commits: Committable) -> Landed:
    """Return the ledger as it reads once all commits have landed in order."""
    return functools.reduce(landed_after, commits, first)
