"""Run a pipeline under its rules, after leveling its tables under the rules they were fed with.

Invariants:
- the present rules count only once all tables are level, or a human said so (protocol.md 2): "a
  changed spec takes effect only where all tables are level";
- a run that cannot level its tables says so: it ends with an error, never as if it had landed all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.core.offsets import Positions
from penstock.landing.coordinator import Coordinator, RunResult
from penstock.landing.epoch.stopping_offsets import StoppingOffsets
from penstock.landing.epoch.trigger import EpochTrigger
from penstock.landing.ownership.claim import PipelineClaim
from penstock.landing.settings import Environment, Settings, Until
from penstock.landing.tables import opening
from penstock.landing.tables.foreign_errors import FILES_FAILED
from penstock.landing.tables.spec_change import CatchUp
from penstock.landing.tables.table_set import TableSet
from penstock.ports.log import Log

FormerSpec = Callable[[str], AbstractContextManager[tuple[Settings, Log]]]
"""Gives the settings of today with the rules of a text that the store kept, and the log of the
topics that those rules read."""

BY_SPEC = frozenset({"P345", FILES_FAILED})
"""What parks a table because of its records, as its rules read them: other rules may not."""


def run(
    settings: Settings,
    world: Environment,
    stop: threading.Event,
    until: Until,
    *,
    takeover: bool,
    former: FormerSpec,
) -> RunResult:
    """Run a pipeline to its end. Raises any PenstockError that concerns it as a whole.

    It is leveled as often as that brings a table forward: one that comes back late trails anew.
    """
    ended = _coordinate(settings, world, stop, until, takeover=takeover)
    before: CatchUp | None = None
    while ended.catch_up_first is not None and not stop.is_set():
        if before is not None and before.ranges == ended.catch_up_first.ranges:
            raise _undecided(before, "these stretches can be read no more")
        before = ended.catch_up_first
        _catch_up(settings, world, stop, before, former)
        if not stop.is_set():
            ended = _coordinate(settings, world, stop, until)
    return ended


def _catch_up(
    settings: Settings,
    world: Environment,
    stop: threading.Event,
    leveling: CatchUp,
    former: FormerSpec,
) -> None:
    with former_rules(settings, world, leveling, former) as (rules, log):
        ended = _coordinate(rules, replace(world, log=log), stop, "caught-up", ends=leveling.ends)
    for table, reason in ended.parked.items():
        if table not in leveling.ranges:
            continue
        if reason.code in BY_SPEC:
            raise _undecided(leveling, f"by the former rules {reason.message}") from reason
        raise reason


@contextmanager
def former_rules(
    settings: Settings, world: Environment, leveling: CatchUp, former: FormerSpec
) -> Iterator[tuple[Settings, Log]]:
    """Open the rules that tables were fed with, and the log of their topics.

    Raises DecisionNeededError (P189) where these cannot be had.
    """
    texts = [world.store.rules(settings.pipeline, each) for each in leveling.rules_hashes]
    if len(texts) != 1 or texts[0] is None:
        lost = "the former rules are lost" if None in texts else "they were fed by several rules"
        raise _undecided(leveling, lost)
    with former(texts[0]) as (rules, log):
        try:
            log.partitions()
        except InvalidError as error:
            raise _undecided(leveling, f"former topics cannot be read: {error.message}") from error
        yield rules, log


def _undecided(leveling: CatchUp, reason: str) -> DecisionNeededError:
    stretches = "; ".join(
        f"{table} {at}{covered}"
        for table, ranges in leveling.ranges.items()
        for at, covered in ranges.items()
    )
    return DecisionNeededError(
        f"the spec changed while tables were not level, and {reason}: {stretches}",
        code="P189",
        hint="to read these ranges by the present rules:  penstock run --accept rules",
    )


def _coordinate(
    settings: Settings,
    world: Environment,
    stop: threading.Event,
    until: Until,
    *,
    takeover: bool = False,
    ends: Positions | None = None,
) -> RunResult:
    """Run one pipeline. `ends` bounds what is read, for leveling tables under former rules.

    Raises what `Coordinator.run` raises.
    """
    fleet = TableSet(settings, world, opening.open_quarantine(settings, world))
    pace = EpochTrigger(settings, world.clock)
    tenure = PipelineClaim(settings, world)
    horizon = StoppingOffsets(ends, keep_first=until != "stopped")
    coordinator = Coordinator(settings, world, stop, fleet, pace, tenure, horizon)
    return coordinator.run(until, takeover=takeover)
