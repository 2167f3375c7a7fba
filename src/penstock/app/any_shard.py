"""Run whichever shard of a pipeline has no living owner (docs/design/0333).

Invariants:
- a process owns one shard at a time, and while it does, it stands by for no other;
- what is said of who owns a shard stays a hint, as for one pipeline: its run claims.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, closing

from penstock.app.assembly import assembly
from penstock.app.assembly.engines import open_engine
from penstock.app.assembly.process import SystemClock, this_owner
from penstock.app.standby import (
    BY_FORCE,
    LandingProbe,
    Readiness,
    Turn,
    is_overtaken,
    member_of,
    required_leadership,
)
from penstock.core.errors import PenstockError
from penstock.core.events import ASKED, GAVE_WAY
from penstock.landing.coordinator import RunResult
from penstock.ownership.membership import Membership, await_turn
from penstock.ports.runtime import Observer
from penstock.spec.model import Pipeline

RunShard = Callable[[Pipeline, Turn], RunResult]


def run_any(
    pipeline: Pipeline, run_shard: RunShard, *, observer: Observer, stop: threading.Event
) -> RunResult:
    """Run a shard whenever one is free, until asked to stop or a run ends by itself.

    Raises InvalidError (P521 where the pending store has no stand-bys, P528 without shards), and
    what a run raises.
    """
    with ExitStack() as stack:
        shards = FreeShards(pipeline, observer, stack)
        while (taken := shards.await_one(stop)) is not None:
            shard, turn = taken
            try:
                with closing(turn.engine):  # a run that failed early has not taken it
                    ended = run_shard(shard, turn)
            except PenstockError as error:
                with closing(assembly.open_store(shard)) as store:
                    if not is_overtaken(shard.name, store, error):
                        raise
            else:
                if ended.reason != GAVE_WAY:
                    return ended
    return RunResult({}, ASKED)


class FreeShards:
    """The shards of a pipeline, as this process stands by for them; `stack` closes it."""

    def __init__(self, pipeline: Pipeline, observer: Observer, stack: ExitStack) -> None:
        self._first = pipeline.of_shard(0)
        self._observer, self._owner = observer, this_owner()
        self._clock = SystemClock()
        self._shards = {
            shard.name: (shard, self._membership(shard, stack)) for shard in pipeline.each_shard()
        }

    def _membership(self, shard: Pipeline, stack: ExitStack) -> Membership:
        rules = assembly.settings_of(shard).rules_hash
        membership = Membership(
            shard.name,
            required_leadership(shard, shard.name),
            member_of(self._owner, rules),
            str,
            self._observer,
            self._clock,
        )
        stack.enter_context(closing(membership))
        return membership

    def await_one(self, stop: threading.Event) -> tuple[Pipeline, Turn] | None:
        """Stand by until a shard is to be claimed; None when asked to stop before.

        The engine of the turn is warm; who takes the turn closes it.
        """
        with ExitStack() as unless_taken:
            engine = open_engine(self._first, observer=self._observer)
            unless_taken.callback(engine.close)
            readiness = Readiness(engine, LandingProbe(self._first))
            members = [membership for _, membership in self._shards.values()]
            for each in members:
                each.trouble = readiness
            with readiness.kept():
                taken = await_turn(members, self._clock, stop)
            if taken is None:
                return None
            readiness()  # its engine may have ended just now
            unless_taken.pop_all()
            membership, reason = taken
            shard, _ = self._shards[membership.pipeline]
            return shard, Turn(membership, self._owner, reason in BY_FORCE, engine)
