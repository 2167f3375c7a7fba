"""How a coordinator ends when even reporting it fails."""

from collections.abc import Callable

import pytest
from tests.story.backend import MemoryGround
from tests.story.run import StoryObserver
from tests.story.world import World

from penstock.core.events import Event, PipelineStarted, PipelineStopped
from penstock.landing.settings import ThreadPoolCommits
from penstock.ownership.claim import Heartbeat


class Deafened(StoryObserver):
    """A listener that fails when a pipeline starts, and when it ended."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, PipelineStarted | PipelineStopped):
            raise ZeroDivisionError(type(event).__name__)


def test_a_listener_that_fails_leaves_no_thread_of_commits_or_heartbeats_behind() -> None:
    ended = []

    class Hands(ThreadPoolCommits):
        def shutdown(self, *, wait: bool = True, cancel_futures: bool = False) -> None:
            ended.append("hands")
            super().shutdown(wait=wait, cancel_futures=cancel_futures)

    class Beats:
        def __init__(self, act: Callable[[], bool], every_seconds: float) -> None:
            self._beats = Heartbeat(act, every_seconds)

        def end(self) -> None:
            ended.append("beats")
            self._beats.end()

    world = World(MemoryGround())
    world.hands, world.beats = Hands, Beats
    life = world.life()
    life.observer = Deafened("")

    with pytest.raises(ZeroDivisionError, match="PipelineStopped"):
        life.run()

    assert ["beats", "hands"] == ended
