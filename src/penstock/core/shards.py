"""Shards: disjoint parts of what a pipeline reads, each landed by a process of its own.

A shard is a pipeline with a name of its own, `shop+2`, wherever a pipeline's name stands: so all
that holds for a pipeline holds for it. Which partitions are its own is a function of their names
(docs/design/0254).

Invariants:
- each partition is one shard's, whoever asks and whenever: nothing assigns them;
- `+` is in no pipeline's name, so a name says whether it is a shard's, and of which pipeline.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.offsets import TopicPartition

PLUS = "+"


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the `count` shards of a pipeline; a pipeline without shards is the only one of 1."""

    pipeline: str
    number: int = 0
    count: int = 1

    @classmethod
    def named(cls, name: str, count: int) -> Shard:
        """Return the shard of a name, of so many; the whole pipeline, where its name has no `+`."""
        pipeline, plus, number = name.partition(PLUS)
        return cls(pipeline, int(number), count) if plus else cls(pipeline)

    def takes(self, at: TopicPartition) -> bool:
        """Return whether a partition is this shard's."""
        return (at.partition + zlib.crc32(at.topic_id.encode())) % self.count == self.number

    def siblings_of(self, chain: str) -> tuple[str, ...]:
        """Name the chains of all shards, its own among them, that are to them what a chain is to
        it: a table's own, or a quarantine chain.
        """
        if self.count == 1:
            return (chain,)
        rest = chain.partition("/")[1:]
        return tuple(
            "".join((shard_name(self.pipeline, number), *rest)) for number in range(self.count)
        )

    def other_count(self, chain: str, begun: Mapping[str, int]) -> int | None:
        """Return how many shards a table was begun by; None where that is as many as there are, or
        where none has begun. `begun` are its chains, with how many positions each has.

        Whoever begins first writes the beginnings of all: so the highest number is known. A chain
        may hold a claim alone before.
        """
        _, *rest = chain.partition("/")
        found, positions = 0, 0
        for name, count in begun.items():
            owner, *own_rest = name.partition("/")
            pipeline, plus, number = owner.partition(PLUS)
            if (pipeline, own_rest) == (self.pipeline, rest):
                found = max(found, int(number) + 1 if plus else 1)
                positions += count
                if count and not plus and self.count > 1:
                    return 1
        return found if positions and found != self.count else None


def shard_name(pipeline: str, number: int) -> str:
    """Name a shard as a pipeline."""
    return f"{pipeline}{PLUS}{number}"


def family_of(chain: str) -> str:
    """Return the pipeline of a chain, whichever of its shards the chain is of."""
    return chain.partition("/")[0].partition(PLUS)[0]


def is_of_first(chain: str) -> bool:
    """Return whether a chain is of a pipeline's first shard, or of a pipeline without shards."""
    return Shard.named(chain.partition("/")[0], 1).number == 0
