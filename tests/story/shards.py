"""Stories of several shards that land one pipeline in the same tables.

Shard 1 is `world.shard(1).run()`; each has a host, with a store, of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.story.backend import Backend, catalog_name
from tests.story.run import Life
from tests.story.world import PIPELINE, QUARANTINE, Coordinate, World

from penstock.core.audit import chain_breaks, doubled_commits
from penstock.core.commits import Chain, Committable
from penstock.core.offsets import TopicPartition
from penstock.core.serialization import progress_from_json
from penstock.core.shards import Shard, shard_name
from penstock.ports.tables import Verdict
from penstock.rows.quarantine.status import READ, status_of


class ShardedWorld(World):
    """The world of a pipeline in `count` shards."""

    def __init__(self, ground: Backend, count: int = 2, **given: Any) -> None:
        super().__init__(ground, **given)
        self.count = count

    def shard(self, number: int, **given: Any) -> Life:
        """Begin a life of one shard."""
        named = {"pipeline": shard_name(PIPELINE, number), "shards": self.count}
        return self.life(**{"host": f"host-{number}", **named, **given})

    def run_all(self, **given: Any) -> list[Life]:
        """Let all shards live until they have caught up, one after another."""
        return [self.shard(number, **given).run() for number in range(self.count)]

    def shard_of(self, partition: int, topic: str = "orders") -> int:
        """Return whose a partition is."""
        full = self.ground.topic(topic)
        [at] = [
            each
            for each in self.ground.open_log([full]).partitions()
            if each.partition == partition
        ]
        return next(n for n in range(self.count) if self._is_of(n, at))

    def _is_of(self, number: int, at: TopicPartition) -> bool:
        return replace(Shard(PIPELINE, 0, self.count), number=number).takes(at)

    def positions(self, name: str) -> dict[int, dict[int, int]]:
        """Return what the ledger of each shard says, by partition; none of one without a ledger."""
        found = {}
        for number, chain in enumerate(self._chains(name)):
            landed = self.table(name).state(chain).landed
            if landed is not None:
                found[number] = {at.partition: int(o) for at, o in sorted(landed.offsets.items())}
        return found

    def _chains(self, name: str) -> list[Chain]:
        return [Chain(shard_name(PIPELINE, each), name) for each in range(self.count)]

    def pending(self, host: str = "here") -> list[Committable]:
        """List what is prepared and not settled, of any shard."""
        store = self.store(host)
        names = [shard_name(PIPELINE, number) for number in range(self.count)]
        try:
            return [each for name in names for each in store.pending(name)]
        finally:
            store.close()

    def rejects(self, name: str = "") -> list[Coordinate]:
        """List the coordinates in quarantine for a table, of all shards."""
        quarantine = self.catalog().load(catalog_name(QUARANTINE))
        found: list[Coordinate] = []
        for each in self._chains(name) if quarantine is not None else []:
            chain = Chain(f"{each.name}/{name}", QUARANTINE)
            refused = [*quarantine.read_quarantine(chain, READ)]
            fates = status_of(refused).to_pylist() if refused else []
            found += [(e["topic"], e["partition"], e["offset"]) for e in fates]
        return sorted(found)

    def _broken(self, name: str) -> list[str]:
        found = []
        for each in self._chains(name):
            rejects = Chain(f"{each.name}/{name}", QUARANTINE)
            for table, chain in ((name, each), (QUARANTINE, rejects)):
                opened = self.catalog().load(catalog_name(table))
                if opened is None:
                    continue
                state, history = opened.state(chain), opened.history(chain)
                if state.verdict not in (Verdict.AGREED, Verdict.ABSENT):
                    found.append(f"{chain}: {state.verdict}, {state.evidence}")
                commits = [progress_from_json([*map(list, c.progress)]) for c in history.commits]
                breaks = [*doubled_commits(commit.commit_id for commit in history.commits)]
                breaks += chain_breaks(state.landed, commits) if state.landed else []
                found += [f"{chain}: {each.message}" for each in breaks]
        return found
