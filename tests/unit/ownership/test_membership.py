"""Members of a pipeline, in memory, over sessions that are cut and servers that restart."""

import threading
from dataclasses import dataclass, field, replace

import pytest

from penstock.connectors.memory.leadership import MemoryLeadership, MemoryServer
from penstock.connectors.memory.store import MemoryStore
from penstock.core.claims import Generation
from penstock.core.errors import UnavailableError
from penstock.core.leadership import (
    ANYBODY,
    OFFERED_MS,
    SILENT_AFTER_MS,
    Member,
    Reason,
    Role,
    Take,
)
from penstock.core.leadership_events import HandoverBegan, StandbyChanged
from penstock.ownership.membership import TRY_SECONDS, Membership, await_turn
from penstock.ports.store import Owner

ALIVE_MS = 15_000


@dataclass
class Turns:
    """A clock that plays acts as it waits: one act for each wait, then it stops who waits."""

    acts: list = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    ms: int = 1_000_000

    def now_ms(self):
        return self.ms

    def monotonic(self):
        return self.ms / 1000

    def wait(self, seconds):
        self.ms += int(seconds * 1000)
        act = self.acts.pop(0) if self.acts else self.stop.set
        act()


class Quiet:
    def __init__(self):
        self.events = []

    def __call__(self, event):
        self.events.append(event)

    def passed(self, point):
        del point


class World:
    """Members of one pipeline; what owns it is only a row and a sign here."""

    def __init__(self):
        self.clock, self.store = Turns(), MemoryStore()
        self.server = MemoryServer(self.store, self.clock.now_ms)
        self.trouble = ""

    def member(self, name, role=Role.STANDBY, rules="r", pipeline="shop"):
        me = Member(name, f"host-{name}", 1, role, rules=rules)
        leadership = MemoryLeadership(self.server, pipeline)
        return Membership(pipeline, leadership, me, lambda: self.trouble, Quiet(), self.clock)

    def claim(self, name):
        """Let a member claim, as a run does."""
        now_ms = self.clock.now_ms()
        return self.store.claim(
            "shop",
            Owner(f"line/{name}", f"host-{name}", 1),
            above=Generation(0),
            now_ms=now_ms,
            alive_until_ms=now_ms + ALIVE_MS,
            takeover=True,
        )

    def owner(self, name="o"):
        """Return a member that owns the pipeline and has its lock."""
        owner = self.member(name, Role.OWNER)
        self.claim(name)
        self.beat(owner)
        return owner

    def beat(self, owner):
        return owner.leadership.look(owner.me, wants_lock=True)

    def awaits(self, member, *acts):
        """Let a stand-by wait while acts are played, one a try; return the reason of its turn."""
        self.clock.acts, self.clock.stop = list(acts), threading.Event()
        taken = await_turn([member], self.clock, self.clock.stop)
        return taken and taken[1]


@pytest.fixture
def world():
    return World()


def test_the_first_one_takes_what_nobody_owns(world):
    assert Reason.FIRST == world.awaits(world.member("a"))


def test_a_stand_by_waits_while_the_owner_beats(world):
    owner, standby = world.owner(), world.member("a")

    assert world.awaits(standby, *[lambda: world.beat(owner)] * 30) is None
    assert [StandbyChanged("shop", "host-o 1", "")] == standby.observer.events


def test_it_takes_over_at_once_when_the_owner_s_session_ends(world):
    owner, standby = world.owner(), world.member("a")
    began = world.clock.ms

    assert Reason.DIED == world.awaits(standby, owner.close, lambda: None)
    assert world.clock.ms - began <= 2 * TRY_SECONDS * 1000


def test_it_takes_over_from_an_owner_that_holds_its_lock_in_silence(world):
    world.owner()
    began = world.clock.ms

    assert Reason.SILENT == world.awaits(world.member("a"), *[lambda: None] * 30)
    assert SILENT_AFTER_MS <= world.clock.ms - began <= SILENT_AFTER_MS + 1000


def test_co_l3_a_server_that_restarts_moves_nobody(world):
    owner, standby = world.owner(), world.member("a")
    acts = [world.server.restart, lambda: None, *[lambda: world.beat(owner)] * 20]

    assert world.awaits(standby, *acts) is None
    assert world.beat(owner).is_locked


def test_co_l4_an_owner_whose_session_was_cut_is_followed_once(world):
    owner, standby = world.owner(), world.member("a")

    def cut():
        owner.leadership.close()

    assert Reason.DIED == world.awaits(standby, cut)
    world.claim("a")
    again = world.member("o")
    acts = [lambda: standby.leadership.look(standby.me, wants_lock=True)] * 20
    assert world.awaits(again, *acts) is None


def test_a_session_that_is_younger_than_the_owner_s_sign_proves_nothing(world):
    """All have lost their sessions: who is back first does not take the owner for dead."""
    owner, standby = world.owner(), world.member("a")

    def all_are_cut():
        world.beat(owner)
        owner.leadership.close()
        standby.leadership.close()
        world.clock.ms += 1

    acts = [all_are_cut, lambda: world.beat(owner), *[lambda: world.beat(owner)] * 20]
    assert world.awaits(standby, *acts) is None
    assert world.beat(owner).is_locked


def test_one_that_is_not_ready_takes_nothing_and_says_why(world):
    owner, standby = world.owner(), world.member("a")
    world.trouble = "P430  lake refuses"

    assert world.awaits(standby, owner.close, *[lambda: None] * 20) is None
    assert {"P430  lake refuses"} == {each.trouble for each in standby.observer.events}
    world.trouble = ""
    assert world.awaits(standby) in (Reason.DIED, Reason.SILENT)


def test_co_l12_a_session_that_is_the_owner_s_as_well_is_told_and_is_no_lock(world):
    owner, standby = world.owner(), world.member("a")
    standby.leadership = owner.leadership

    assert world.awaits(standby, *[lambda: world.beat(owner)] * 20) is None
    assert {"P522"} == {each.trouble[:4] for each in standby.observer.events}


def test_who_hands_over_takes_its_turn_back_when_nobody_wants_it(world):
    owner = world.owner()
    owner.offer()
    world.store.release("shop", world.store.holding("shop").claim)
    owner.leadership.unlock()
    began = world.clock.ms

    assert world.awaits(owner, *[lambda: None] * 100) is Reason.RELEASED
    assert OFFERED_MS <= world.clock.ms - began <= OFFERED_MS + 2000
    assert [HandoverBegan("shop", ANYBODY)] == owner.observer.events[:1]


def test_it_is_followed_by_whom_it_was_offered_to(world):
    owner, other, meant = world.owner(), world.member("a"), world.member("b")
    owner.offer("host-b")
    world.store.release("shop", world.store.holding("shop").claim)
    owner.leadership.unlock()

    assert world.awaits(other, *[lambda: None] * 4) is None
    assert Reason.HANDED_OVER == world.awaits(meant)


def test_the_owner_is_told_once_that_it_is_asked(world):
    owner, asked = world.owner(), threading.Event()
    other = MemoryLeadership(world.server, "shop")
    times = []

    def hand_over():
        times.append(1)
        asked.set()

    with owner.owning(hand_over):
        other.ask("o", "host-b")
        assert asked.wait(30)
    assert [1] == times
    assert "host-b" == other.roll().signs[0].member.offered_to


def test_a_store_that_does_not_answer_takes_nothing_from_a_stand_by(world):
    owner, standby = world.owner(), world.member("a")
    look = standby.leadership.look
    down = [True, True]

    def failing(me, *, wants_lock):
        if down:
            down.pop()
            raise UnavailableError("it is away", code="P512", hint="")
        return look(me, wants_lock=wants_lock)

    standby.leadership.look = failing
    assert Reason.DIED == world.awaits(
        standby, *[lambda: world.beat(owner)] * 4, owner.close, lambda: None
    )
    assert "P512  it is away" == standby.observer.events[0].trouble


def test_it_is_followed_while_a_stand_by_is_ready(world):
    owner, standby = world.owner(), world.member("a")
    assert not owner.is_followed()

    def see():
        seen.append(owner.is_followed())
        world.beat(owner)

    seen = []
    assert world.awaits(standby, see) is None
    assert [True] == seen
    assert not owner.is_followed(), "it has left"


def away(member, clock):
    """Let the store answer a member no more, each time after a while; return what ends that."""
    look = member.leadership.look

    def failing(me, *, wants_lock):
        del me, wants_lock
        clock.ms += 500
        raise UnavailableError("it is away", code="P512", hint="")

    member.leadership.look = failing
    return lambda: setattr(member.leadership, "look", look)


@pytest.mark.parametrize("restarts", [True, False])
def test_a_store_that_was_away_for_long_moves_nobody(world, restarts):
    """Who is back first sees signs that are old: his own is as old."""
    owner, standby = world.owner(), world.member("a")

    def begin():
        ends.append(away(standby, world.clock))

    def end():
        ends[0]()
        if restarts:
            world.server.restart()

    ends, acts = [], [begin, *[lambda: None] * 20, end]
    acts += [lambda: None, *[lambda: world.beat(owner)] * 20]
    assert world.awaits(standby, *acts) is None
    assert world.beat(owner).is_locked


def test_a_store_that_is_slow_moves_nobody(world):
    """An answer takes 3 s: the owner's signs are further apart than a silence is long."""
    owner, standby = world.owner(), world.member("a")
    look = standby.leadership.look

    def slow(me, *, wants_lock):
        world.clock.ms += 3_000
        return look(me, wants_lock=wants_lock)

    standby.leadership.look = slow
    assert world.awaits(standby, *[lambda: None, lambda: world.beat(owner)] * 20) is None


def test_an_owner_that_hangs_with_the_lock_keeps_nobody_out_for_ever(world):
    """It was followed; its follower has ended, and nobody can have the lock."""
    world.owner("hung")
    follower, standby = world.owner("o"), world.member("a")
    assert not world.beat(follower).is_locked
    follower.offer()
    world.store.release("shop", world.store.holding("shop").claim)
    follower.leadership.leave(follower.me)
    began = world.clock.ms

    assert Reason.HANDED_OVER == world.awaits(standby, *[lambda: None] * 30)
    assert SILENT_AFTER_MS <= world.clock.ms - began <= SILENT_AFTER_MS + 1000


def test_a_stand_by_that_hangs_in_its_turn_keeps_nobody_out_for_ever(world):
    hung, standby = world.member("h"), world.member("a")
    assert Reason.FIRST == world.awaits(hung)

    assert Reason.FIRST == world.awaits(standby, *[lambda: None] * 30)


def test_of_three_that_see_silence_at_once_the_first_that_claims_is_left_alone(world):
    world.owner()
    crew, took = [world.member(name) for name in "abc"], []

    for _ in range(40):
        for each in crew:
            if each in took:
                world.beat(each)
            elif isinstance(each._tried()[0], Take):
                took.append(each)
                world.claim(each.me.id)
                each.me = replace(each.me, role=Role.OWNER)
        world.clock.wait(TRY_SECONDS)
    assert crew[:1] == took


def test_an_epoch_that_lasts_longer_than_an_offer_does_not_end_it(world):
    owner = world.owner()
    owner.offer("host-b")
    world.clock.ms += 2 * OFFERED_MS
    world.beat(owner)
    world.store.release("shop", world.store.holding("shop").claim)
    owner.leadership.unlock()
    began = world.clock.ms

    assert world.awaits(owner, *[lambda: None] * 100) is Reason.RELEASED
    assert OFFERED_MS <= world.clock.ms - began


def test_who_was_meant_and_has_died_is_followed_by_another(world):
    """The owner has ended for good, and said before to whom it gives way."""
    owner, other = world.owner(), world.member("a")
    owner.offer("host-b")
    world.store.release("shop", world.store.holding("shop").claim)
    owner.leadership.leave(owner.me)
    began = world.clock.ms

    assert Reason.HANDED_OVER == world.awaits(other, *[lambda: None] * 100)
    assert OFFERED_MS <= world.clock.ms - began <= OFFERED_MS + 1000


def test_who_has_handed_over_is_not_asked_again_when_its_turn_comes_back(world):
    owner, other = world.owner(), MemoryLeadership(world.server, "shop")
    owner.offer()
    world.store.release("shop", world.store.holding("shop").claim)
    owner.leadership.unlock()
    other.ask("o", "host-b")  # too late: it has ended

    assert world.awaits(owner, *[lambda: None] * 100) is Reason.RELEASED
    assert "" == world.beat(owner).asked


def test_an_owner_that_gives_no_signs_is_followed_when_its_time_is_over(world):
    world.claim("older")
    began = world.clock.ms

    assert Reason.SILENT == world.awaits(world.member("a"), *[lambda: None] * 60)
    assert ALIVE_MS <= world.clock.ms - began <= ALIVE_MS + 1000


def test_other_rules_wait_for_a_person_however_long_that_is(world):
    owner, other = world.owner(), world.member("a", rules="s")

    assert world.awaits(other, owner.leadership.close, *[lambda: None] * 200) is None
    assert "P523" == other.observer.events[-1].trouble[:4]
    assert Reason.SILENT == world.awaits(world.member("b"), *[lambda: None] * 20)


def test_who_cannot_stand_by_any_more_is_listed_no_more(world):
    owner, standby = world.owner(), world.member("a")

    def engine_ends():
        assert owner.is_followed()
        standby.trouble = broken

    def broken():
        raise UnavailableError("the engine has ended", code="P602", hint="")

    with pytest.raises(UnavailableError, match="the engine has ended"):
        world.awaits(standby, engine_ends)
    assert not owner.is_followed()


def test_who_is_stopped_before_it_stands_by_was_never_there(world):
    standby = world.member("a", Role.OWNER)
    world.clock.stop.set()

    assert await_turn([standby], world.clock, world.clock.stop) is None
    assert [] == standby.leadership.roll().signs


def test_of_several_pipelines_the_first_that_is_free_is_taken_and_the_others_are_left(world):
    owner = world.member("a", Role.OWNER)
    owner.leadership.look(owner.me, wants_lock=True)
    world.claim("a")
    shards = [world.member("b"), *(world.member("b", pipeline=f"shop+{n}") for n in (1, 2))]
    world.clock.stop = threading.Event()

    taken = await_turn(shards, world.clock, world.clock.stop)

    assert taken == (shards[1], Reason.FIRST)
    assert [Role.STANDBY, Role.OWNER, Role.STANDBY] == [each.me.role for each in shards]
    third = world.member("c", pipeline="shop+2")
    assert await_turn([third], world.clock, world.clock.stop) == (third, Reason.FIRST)
    assert ["a"] == [sign.member.id for sign in shards[0].leadership.roll().signs]
