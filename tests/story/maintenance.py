"""Maintains a table of a world as `penstock maintain` does it, whatever happens meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tests.story.backend import catalog_name
from tests.story.faulty_catalog import FaultyTables
from tests.story.observer import Crash
from tests.story.run import StoryObserver
from tests.story.world import PIPELINE, World

from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import last_claim_of
from penstock.commit.rearranging import RearrangedFiles, Rearranging
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import DecisionNeededError, UnavailableError
from penstock.core.events import Event

_numbers = itertools.count(1)


class _Points(StoryObserver):
    """Plays acts at points; events are nobody's."""

    def __call__(self, event: Event) -> None:
        del event


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
    observer = _Points(crash)
    observer.acts[at, 1] = meanwhile
    table = FaultyTables(world.catalog(), world.faults).load(catalog_name(name))
    if table is None:
        return RearrangedFiles(), None
    context = CommitContext(last_claim_of(None), observer, world.clock, lambda: 0.5, 25)
    rearranging = Rearranging(
        Chain(PIPELINE, name),
        table,
        world.ground.open_writer(),
        context,
        f"m{next(_numbers)}",
        lambda: world.store().pauses(PIPELINE),
    )
    try:
        rearranging.run()
    except (DecisionNeededError, UnavailableError) as error:
        return rearranging.done, error
    except Crash:
        pass
    return rearranging.done, None
