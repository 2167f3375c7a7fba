"""Hold a pipeline: claim a generation, say that we are alive, notice that another took over."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from penstock.core.commits import Claim, Generation
from penstock.core.errors import FencedError, PenstockError, UnavailableError
from penstock.core.points import Point
from penstock.landing.settings import Settings, World


def claim(settings: Settings, world: World, *, above: Generation, takeover: bool) -> Claim:
    """Claim the next generation, above all that any ledger has seen (protocol.md 6).

    Raises UnavailableError while another owner is alive, unless `takeover`.
    """
    now_ms = world.clock.now_ms()
    world.observer.reached(Point.CLAIM_BEFORE)
    held = world.store.claim(
        settings.pipeline,
        world.owner,
        above=above,
        now_ms=now_ms,
        alive_until_ms=now_ms + int(settings.alive_seconds * 1000),
        takeover=takeover,
    )
    world.observer.reached(Point.CLAIM_AFTER)
    return held


@dataclass(slots=True)
class Heartbeat:
    """Beats in a thread of its own, so that a long epoch does not look like death."""

    settings: Settings
    world: World
    claim: Claim
    error: PenstockError | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to beat."""
        self._thread = threading.Thread(target=self._beat, name="penstock-heartbeat", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise what the beat found out: FencedError when another owner took over."""
        if isinstance(self.error, FencedError):
            raise self.error

    def stop(self) -> None:
        """End the beat."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _beat(self) -> None:
        while not self._stop.wait(self.settings.heartbeat_seconds):
            until = self.world.clock.now_ms() + int(self.settings.alive_seconds * 1000)
            self.world.observer.reached(Point.HEARTBEAT)
            try:
                self.world.store.heartbeat(self.settings.pipeline, self.claim, alive_until_ms=until)
            except FencedError as error:
                self.error = error
                return
            except UnavailableError as error:
                self.error = error  # advisory: the next prepare finds out for good
