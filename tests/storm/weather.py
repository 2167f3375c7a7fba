"""The world of a storm: a catalog that lies, frames that go wrong, a broker that is restarted.

Invariant: what is counted is what was played, not what was meant to be.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.servers.kafka_proxy import FrameFault, Kind
from tests.servers.lying import Lie
from tests.storm.lives import Keeper
from tests.storm.plan import Fault, Gust, play
from tests.storm.stage import Stage

LANDS = "POST .*/tables/"
ANYTHING = ".*"
RELEASE_SECONDS = 1.0
REFUSALS = 1_000


@dataclass(slots=True)
class World:
    """Carries out what strikes everybody. Use it from one thread."""

    stage: Stage
    keepers: Sequence[Keeper]
    acts: Counter[str] = field(default_factory=Counter)
    late: int = 0

    def through(self, gusts: Sequence[Gust], began: float) -> None:
        """Act through a storm that began at a monotonic time."""
        self.late += play(gusts, began, self._act)

    def calm(self) -> None:
        """Take back what did not happen yet; let delayed requests arrive."""
        self.stage.liar.clear()
        self.stage.liar.release()

    def played(self) -> Counter[str]:
        """Count what was done, lie by lie and frame by frame."""
        lies = Counter(f"catalog: {lie}" for lie, _ in self.stage.liar.reported)
        frames = Counter(f"Kafka: {kind.name} {fault}" for kind, fault in self.stage.proxy.played)
        return self.acts + lies + frames

    def _act(self, gust: Gust) -> None:
        match gust.fault:
            case Fault.LIE:
                name, count = gust.detail.split()
                self.stage.liar.release()
                self.stage.liar.queue(LANDS, *[Lie[name]] * int(count))
            case Fault.AWAY:
                self.stage.liar.queue(ANYTHING, *[Lie.REFUSE] * REFUSALS)
                time.sleep(float(gust.detail))
                self.stage.liar.clear()
                self._shocks(gust.fault)
            case Fault.FRAME:
                kind, fault, count = gust.detail.split()
                self.stage.proxy.queue(Kind[kind], *[FrameFault[fault]] * int(count))
            case Fault.BROKER:
                self.stage.restart_broker(float(gust.detail))
                self._shocks(gust.fault)
            case Fault.GROW:
                self.stage.grow()
                self.acts[gust.fault] += 1
            case _:
                raise AssertionError(gust)

    def _shocks(self, name: str) -> None:
        """Let every pipeline's recovery be timed."""
        self.acts[name] += 1
        for keeper in self.keepers:
            keeper.shocked(name)
