"""Random histories of a pipeline in shards: each life is one shard's, beside lives of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tests.simulation.histories import ACTS, Play
from tests.story.backend import MemoryGround
from tests.story.run import Life
from tests.story.shards import ShardedWorld
from tests.story.world import PIPELINE, either

from penstock.core.crash_points import CrashPoint
from penstock.core.shards import shard_name

POINTS = (
    CrashPoint.ANCHOR_BEFORE,
    CrashPoint.CREATE_BEFORE,
    CrashPoint.PREPARE_AFTER,
    CrashPoint.QUARANTINE_BEFORE,
    CrashPoint.COMMIT_BEFORE,
    CrashPoint.COMMIT_AFTER,
)


class DrawnWorld(ShardedWorld):
    """A world in which whoever lives is the shard whose turn it is."""

    turn = 0

    def life(self, **given: object) -> Life:
        """Begin a life of the shard whose turn it is, unless one is named."""
        named = {"pipeline": shard_name(PIPELINE, self.turn), "shards": self.count}
        return super().life(**{**named, **given})


class ShardedPlay(Play):
    """A history of two or three shards, which share hosts, tables and faults."""

    acts: ClassVar[Sequence[str]] = [*ACTS, *["beside"] * 5, "grow", "rules"]
    world: DrawnWorld

    def made(self, routes: Mapping[str, Sequence[str]]) -> DrawnWorld:
        """Make the world. In some, a shard of each topic begins at the latest record while there is
        none: another one that would begin by itself later loses what came since.
        """
        start, count = self.random.choice(["earliest", "latest"]), self.random.choice([2, 3])
        world = DrawnWorld(MemoryGround(), count, routes=routes, partitions=2, start=start)
        world.alone(1)
        first = {world.shard_of(self.random.randrange(2), topic) for topic in sorted(routes)}
        for number in sorted(first) if start == "latest" else ():
            world.shard(number, host="here").run()
        return world

    def begin(self, **given: object) -> Life:
        """Begin a life of a shard with drawn settings and hands."""
        self.world.turn = self.random.randrange(self.world.count)
        return super().begin(**given)

    def beside(self) -> None:
        """Let shards live while another is at a point, which goes on as their equal."""
        self.some()
        point = self.random.choice(POINTS)
        meddles = self.random.choice([None, None, self.grow, self.widen, self.rules])

        def others() -> None:
            own = self.world.turn
            if meddles:
                meddles()
            for number in range(self.world.count):
                if number != own and self.random.random() < 0.8:
                    self.send()
                    self.world.turn = number
                    self.world.alone(1)
                    self.world.life(records_max=2, accept=["rules", "topic"]).run()
            self.world.turn = own

        life = self.begin(crash=self.random.choice(["", f"{CrashPoint.COMMIT_AFTER}:1"]))
        life.at(point, others).run()
        self.reported.append(f"  {life.settings.pipeline} at {point}: {life.error!r}")

    def end(self) -> list[str]:
        """Let all shards live on every host, and compare."""
        self.back()
        self.world.faults.release()
        hosts = ["here", "there", "here"] if "there" in self.world.hosts else ["here"]
        for host in hosts:
            for number in range(self.world.count):
                self.begin()
                self.world.turn = number
                life = self.world.life(host=host, accept=["rules", "topic"], records_max=1000).run()
                if life.error is not None:
                    return [f"the last life of {number} ended with {life.error!r}"]
                if set(life.parked) - self.rolled:
                    return [f"the last life of {number} left {life.parked} parked"]
        found = self.world.breaks(fitting=either)
        return [text for text in found if not any(name in text for name in self.rolled)]
