"""Maintains a table of a world as `penstock maintain` does it, whatever happens meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.story.backend import catalog_name
from tests.story.faulty_catalog import FaultyTables
from tests.story.observer import Crash
from tests.story.run import StoryObserver
from tests.story.world import PIPELINE, World

from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import last_claim_of
from penstock.commit.expiring import expire
from penstock.commit.maintaining import Maintenance
from penstock.commit.rearranging import RearrangedFiles, Rearranging
from penstock.commit.sweeping import Sweeping
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import DecisionNeededError, UnavailableError
from penstock.core.events import Event
from penstock.ports.runtime import Clock
from penstock.testing.contracts.copying import copying_engine

LONG_MS = 1_000_000
"""A long wait, by the storage's clock: longer than any epoch."""
_numbers = itertools.count(1)


class _Points(StoryObserver):
    """Plays acts at points; events are nobody's."""

    def __call__(self, event: Event) -> None:
        del event


class _Afterwards:
    """The clock of a world, a century later: every snapshot is old."""

    def __init__(self, clock: Clock) -> None:
        self.monotonic, self.wait = clock.monotonic, clock.wait

    def now_ms(self) -> int:
        return 4_000_000_000_000


@dataclass(slots=True)
class Played:
    """What was done to a table, and how it ended."""

    done: RearrangedFiles = field(default_factory=RearrangedFiles)
    expired: int = 0
    noted: int = 0
    deleted: list[str] = field(default_factory=list)
    error: Exception | None = None


def maintained(
    world: World,
    name: str,
    *,
    at: CrashPoint = CrashPoint.FILES_REWRITTEN,
    meanwhile: Callable[[], object] = lambda: None,
    crash: str = "",
) -> tuple[RearrangedFiles, Exception | None]:
    """Maintain a table, with the faults of the world; return what was done, and how it ended.

    Something may happen at a point, and it may end there. What nobody may expect is raised.
    """
    found = upkept(world, name, at=at, meanwhile=meanwhile, crash=crash, acts=("rearrange",))
    return found.done, found.error


def upkept(
    world: World,
    name: str,
    *,
    acts: Sequence[str],
    at: CrashPoint = CrashPoint.FILES_REWRITTEN,
    meanwhile: Callable[[], object] = lambda: None,
    crash: str = "",
) -> Played:
    """Rearrange files of a table, let snapshots expire, sweep, as `maintained` does the first.

    A sweep looks at files that were there before the world's last long wait.
    """
    played, observer = Played(), _Points(crash)
    observer.acts[at, 1] = meanwhile
    table = FaultyTables(world.catalog(), world.faults).load(catalog_name(name))
    if table is None:
        return played
    context = CommitContext(last_claim_of(None), observer, world.clock, lambda: 0.5, 25)
    chain, attempt = Chain(PIPELINE, name), f"{next(_numbers):08x}"
    late = replace(context, clock=_Afterwards(world.clock))
    store = world.store()
    now = Maintenance(chain, table, context, attempt, lambda: store.pauses(PIPELINE))
    work = replace(now, context=late)
    engine = copying_engine(world.ground.open_writer(), world.ground.open_file_rows(), observer)
    rearranging = Rearranging(now, engine, "played")
    sweeping = Sweeping(work, store, LONG_MS // 2, 0)
    try:
        if "rearrange" in acts:
            rearranging.run()
        if "expire" in acts:
            played.expired = len(expire(work))
        if "sweep" in acts:
            played.noted = len(sweeping.run().new)
    except (DecisionNeededError, UnavailableError) as error:
        played.error = error
    except Crash:
        pass
    played.done, played.deleted = rearranging.done, [each.path for each in sweeping.deleted]
    return played
