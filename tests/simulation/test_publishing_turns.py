"""Turns of publications that stand by: too late, and with what a person accepted."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from tests.story.publishing import INTO, PublishingWorld

from penstock.app import publish, standby
from penstock.connectors.memory.leadership import MemoryLeadership, MemoryServer
from penstock.core.resuming import Accepted
from penstock.ports.producers import NO_TRANSACTIONS


@pytest.fixture
def world() -> PublishingWorld:
    found = PublishingWorld()
    found.send(0, "a")
    return found


def in_turn(world, **changes):
    """Return what publishes in turns by a spec without anything but the world's publication."""
    run = world.publisher("caught-up", **changes)
    shared = publish._Run(
        spec=None,
        engine=run.environment.engine,
        observer=run.environment.observer,
        stop=threading.Event(),
        until="caught-up",
        takeover=False,
        standby=True,
    )
    return lambda: shared._in_turn(run.publication, run.environment)


@pytest.fixture
def turns(world, monkeypatch):
    """Play acts in the place of waiting for turns; return what each turn ended with."""
    server = MemoryServer(world.store, world.clock.now_ms)
    leadership = MemoryLeadership(server, "feed")
    monkeypatch.setattr(publish, "leadership_of_run", lambda *_, **__: leadership)
    found = []

    def play(*acts, takeover=True):
        def in_turns(membership, readiness, store, stop, run):
            del membership, readiness, store
            for act in acts:
                act()
                found.append(run(stop, takeover=takeover))
            return found[-1]

        monkeypatch.setattr(standby, "run_in_turn", in_turns)
        return found

    return play


def test_what_a_person_accepted_holds_in_one_turn(world, turns):
    """Weeks may lie between two turns of one process."""
    world.run()

    def lose():
        world.make_again(INTO)
        world.send(0, "b")

    ended = turns(lose, lose)
    in_turn(world, accept=frozenset({Accepted.TARGET}))()

    assert ["", "P808"] == [each.error.code if each.error else "" for each in ended]


def test_a_stand_by_with_other_answers_or_another_promise_has_other_rules(world):
    own = world.publisher().publication
    others = (
        replace(own, changes="skip"),
        replace(own, target={"protocol": NO_TRANSACTIONS}),
        replace(own, rules_hash="s"),
    )

    assert publish.rules_of(own) == publish.rules_of(replace(own, tasks=3, polls=True))
    assert 4 == len({publish.rules_of(each) for each in (own, *others)})


def test_who_is_too_late_is_told_so_and_stands_by(world, turns):
    """What waits for turns would have it wait again; here there is nothing more to come."""
    other = world.publisher("stopped")
    other.step()
    turns(lambda: None, takeover=False)
    found = in_turn(world)()

    assert found.error is not None
    assert "P510" == found.error.code
    other.close()
