"""`penstock run`: land records until asked to stop, and say with which exit code it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

from penstock.app.assembly import assembly
from penstock.app.standby import (
    Candidate,
    LandingProbe,
    Turn,
    leadership_of_run,
    run_led,
    take_turn,
)
from penstock.core.errors import gravest
from penstock.core.events import ASKED, GAVE_WAY, WaitBegan
from penstock.landing.coordinator import TICK_SECONDS, RunResult
from penstock.landing.run import run as land
from penstock.landing.settings import Consent, HealthOf, Until
from penstock.landing.waiting import ENGINE
from penstock.ports.runtime import Engine, Observer
from penstock.spec.model import Pipeline


def run(
    pipeline: Pipeline,
    *,
    observer: Observer,
    stop: threading.Event,
    until: Until,
    takeover: bool = False,
    standby: bool = False,
    accept: frozenset[Consent] = frozenset(),
    faults: str = "",
    engine: Callable[[], Engine] | None = None,
    turn: Turn | None = None,
    health: HealthOf = dict,
) -> RunResult:
    """Run a pipeline to its end. Raises any PenstockError that concerns it as a whole.

    `takeover` takes a live owner's place; with `standby` it waits for its turn, again and again
    (InvalidError P521 where the store has no stand-bys). `accept` is what a person consents to:
    `gap` (go on after records that retention deleted), `topic` (a re-created topic is a new one),
    `rules` (the present rules count for stretches other tables landed under former ones). `faults`
    are crash points. A `turn` that came is taken, with its engine. `health` is what is known of how
    tables lie: without it, no table is ever held for it.
    """
    with ExitStack() as stack:
        leadership = None
        if turn is None:
            leadership = leadership_of_run(
                pipeline, pipeline.name, standby=standby, takeover=takeover
            )
        environment = assembly.open_environment(
            pipeline,
            stack,
            observer=observer,
            engine=engine if turn is None else lambda: turn.engine,
            owner=None if turn is None else turn.owner,
            health=health,
        )
        settings = assembly.settings_of(pipeline, accept=accept, faults=faults)
        former = assembly.former_of(pipeline, accept=accept, faults=faults)

        def landed(ends: threading.Event, *, takeover: bool) -> RunResult:
            return land(settings, environment, ends, until, takeover=takeover, former=former)

        if takeover:  # a run that takes a live owner's place must be able to do its work
            observer(WaitBegan(ENGINE))
            while not environment.engine.is_ready(TICK_SECONDS):
                if stop.is_set():
                    return RunResult({}, ASKED)
            environment.engine.capacity()
        if turn is not None:
            ended = take_turn(turn.membership, stop, landed, takeover=turn.by_force)
        else:
            candidate = Candidate(pipeline.name, settings.rules_hash, LandingProbe(pipeline))
            ended = run_led(
                candidate, leadership, environment, stop, landed, standby=standby, takeover=takeover
            )
        return ended or RunResult({}, ASKED if standby else GAVE_WAY)


def exit_code(ended: RunResult, until: Until, *, asked_to_stop: bool) -> int:
    """Return the exit code of a run that came to its end (interface.md 2).

    A stop that was asked for is clean; otherwise tables that are parked count: those that need a
    person first, then those with wrong input, then those that may come back.
    """
    if asked_to_stop and until == "stopped":
        return 0
    return gravest(each.exit_code for each in ended.parked.values())
