"""A pipeline is held while its run lives, whatever one beat meets."""

import threading
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
from tests.story.clock import ManualClock

from penstock.connectors.memory.store import MemoryStore
from penstock.core.claims import Claim, Generation
from penstock.core.errors import FencedError, InvalidError, UnavailableError
from penstock.ownership.claim import ClaimContext, PipelineClaim
from penstock.ports.store import Owner, Pause

CANNOT_OPEN = InvalidError("unable to open database file", code="P506", hint="look")
NO_ANSWER = UnavailableError("the store does not answer", code="P512", hint="look")


@dataclass
class Beating:
    """Keeps the beat, to be done by hand."""

    act: object = None
    ended: bool = False

    def __call__(self, act, every_seconds):
        del every_seconds
        self.act = act
        return self

    def end(self):
        self.ended = True


@dataclass
class Failing(MemoryStore):
    """A store with next heartbeats that meet errors."""

    errors: list = field(default_factory=list)

    def __post_init__(self):
        super().__init__()

    def heartbeat(self, pipeline, claim, *, alive_until_ms):
        if self.errors:
            raise self.errors.pop(0)
        return super().heartbeat(pipeline, claim, alive_until_ms=alive_until_ms)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store():
    return Failing()


def tenure_of(store, clock, beating, owner="me"):
    context = ClaimContext(
        "shop",
        store,
        Owner(owner, "here.test", 1),
        observer=SimpleNamespace(passed=lambda _: None),
        clock=clock,
        jitter=lambda: 0.5,
        token=lambda: "a-line",
        start_heartbeat=beating,
        snapshots_kept=25,
        heartbeat_seconds=3.0,
        alive_seconds=15.0,
    )
    return PipelineClaim(context)


@pytest.mark.parametrize("error", [CANNOT_OPEN, NO_ANSWER])
def test_a_beat_that_fails_is_followed_by_others(store, clock, error):
    beating = Beating()
    tenure = tenure_of(store, clock, beating)
    tenure.acquire([], takeover=False)
    store.errors.append(error)
    clock.advance(10)

    assert beating.act()
    assert beating.act()
    tenure.check()
    clock.advance(10)
    with pytest.raises(UnavailableError) as alive:
        tenure_of(store, clock, Beating(), "another").acquire([], takeover=False)
    assert "P510" == alive.value.code


def test_the_beat_of_a_run_that_was_fenced_ends(store, clock):
    beating = Beating()
    tenure = tenure_of(store, clock, beating)
    tenure.acquire([], takeover=False)
    tenure_of(store, clock, Beating(), "another").acquire([], takeover=True)

    assert not beating.act()
    with pytest.raises(FencedError):
        tenure.check()


class Between(MemoryStore):
    """A store under which a beat comes between a claim and its answer."""

    def claim(self, *given, **named):
        claimed = super().claim(*given, **named)
        beating = threading.Thread(target=self.beat)
        beating.start()
        beating.join(0.2)
        return claimed


def test_a_beat_does_not_take_our_own_new_claim_for_anothers(clock):
    store, beating = Between(), Beating()
    store.beat = lambda: None
    tenure = tenure_of(store, clock, beating)
    tenure.acquire([], takeover=False)
    store.beat = beating.act
    tenure.reacquire([], FencedError("fenced", code="P520"))

    assert beating.act()
    tenure.check()
    assert 2 == tenure.claim.generation


def test_a_pause_is_confirmed_when_no_attempt_is_under_way_and_none_begins(store, clock):
    beating = Beating()
    tenure = tenure_of(store, clock, beating)
    tenure.acquire([], takeover=False)
    begun = Pause("t", clock.now_ms(), clock.now_ms() + 60_000)

    def seen_by():
        (pause,) = store.pauses("shop")
        return pause.seen_by

    with tenure.pauses.passing("t", clock.now_ms()):
        store.pause("shop", begun)
        beating.act()
        assert seen_by() == 0
        with (
            pytest.raises(UnavailableError) as refused,
            tenure.pauses.passing("t", clock.now_ms()),
        ):
            pass
        assert refused.value.code == "P445"
    assert seen_by() == 0
    beating.act()
    assert seen_by() == tenure.claim.generation
    with tenure.pauses.passing("another", clock.now_ms()):
        pass

    clock.advance(60)
    with tenure.pauses.passing("t", clock.now_ms()):
        pass


def test_an_owner_that_claims_during_a_pause_knows_it_before_the_first_beat(store, clock):
    store.pause("shop", Pause("t", clock.now_ms(), clock.now_ms() + 1))
    tenure = tenure_of(store, clock, Beating())
    tenure.acquire([], takeover=False)

    with pytest.raises(UnavailableError), tenure.pauses.passing("t", clock.now_ms()):
        pass


def test_a_claim_over_one_of_another_server_begins_a_line(store, clock):
    former = tenure_of(store, clock, Beating(), "former")
    former.acquire([], takeover=False)
    held = store.holding("shop")
    store.holdings["shop"] = replace(held, elsewhere=True)
    tenure = tenure_of(store, clock, Beating())
    tenure.context = replace(tenure.context, token=lambda: "another-line")
    tenure.acquire([], takeover=True)

    assert tenure.foreign
    assert ("a-line", "another-line") == (held.claim.line, tenure.claim.line)
    assert {"a-line"} == tenure.supersedes


def test_what_a_ledger_knows_and_the_store_did_not_is_risen_above(store, clock):
    tenure = tenure_of(store, clock, Beating())
    tenure.acquire([], takeover=False)
    seen = Claim(Generation(7), "elsewhere/run")

    assert not tenure.rise_above([])
    assert tenure.rise_above([seen])
    assert not tenure.rise_above([seen]), "it was superseded"
    assert (8, True) == (tenure.claim.generation, tenure.foreign)


def test_what_our_own_store_knows_by_now_fences_who_looks(store, clock):
    tenure = tenure_of(store, clock, Beating())
    tenure.acquire([], takeover=False)
    another = tenure_of(store, clock, Beating(), "another")
    another.acquire([], takeover=True)

    with pytest.raises(FencedError):
        tenure.rise_above([another.claim])
