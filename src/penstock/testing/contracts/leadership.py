# ruff: noqa: D102, SIM300 - test names are the sentences, and numbers are examples
"""What every leadership must do: a lock that ends with its session, signs that others read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from penstock.core.claims import Claim, Generation
from penstock.core.errors import UnavailableError
from penstock.core.leadership import ANYBODY, Member, Role, Sight
from penstock.ports.leadership import Leadership
from penstock.ports.store import Owner, PendingStore

A = Member("a1", "host-a", 7, Role.OWNER, version="1", rules="r1")
B = Member("b2", "host-b", 8, Role.STANDBY, trouble="P430  lake", version="1", rules="r2")
ALIVE_UNTIL_MS = 1_700_000_000_000


class LeadershipContract:
    """Implement the three hooks; each leadership of a test is another process's."""

    def open_leadership(self, pipeline: str) -> Leadership:
        """Open one more process's leadership of a pipeline."""
        raise NotImplementedError

    def open_store(self) -> PendingStore:
        """Open the store beside it."""
        raise NotImplementedError

    def cut(self, leadership: Leadership) -> None:
        """End the session of a process that lives: the server lets go of its lock."""
        raise NotImplementedError

    @pytest.fixture
    def one(self) -> Iterator[Leadership]:
        """Open a process's leadership."""
        yield from _closing(self.open_leadership("shop"))

    @pytest.fixture
    def other(self) -> Iterator[Leadership]:
        """Open another process's."""
        yield from _closing(self.open_leadership("shop"))

    def test_a_sign_is_read_by_others_as_it_was_given(
        self, one: Leadership, other: Leadership
    ) -> None:
        first = one.look(A, wants_lock=True)
        second = other.look(B, wants_lock=False)
        roll = other.roll()

        signs = {each.member.id: each for each in roll.signs}
        assert {"a1": A, "b2": B} == {name: each.member for name, each in signs.items()}
        assert first.now_ms <= signs["a1"].seen_ms <= second.now_ms <= roll.now_ms
        assert (first.session, True) == (signs["a1"].session, signs["a1"].is_locked)
        assert (second.session, False) == (signs["b2"].session, signs["b2"].is_locked)
        assert first.session.backend != second.session.backend
        assert first.session.began_ms <= first.now_ms

    def test_one_of_several_has_the_lock_and_who_does_not_want_it_has_it_not(
        self, one: Leadership, other: Leadership
    ) -> None:
        assert not one.look(A, wants_lock=False).is_locked
        assert other.look(B, wants_lock=True).is_locked
        assert not one.look(A, wants_lock=True).is_locked
        assert other.look(B, wants_lock=False).is_locked, "it is kept until it is given back"

        other.unlock()
        other.unlock()
        assert one.look(A, wants_lock=True).is_locked
        assert not other.look(B, wants_lock=True).is_locked

    def test_pipelines_have_locks_and_members_of_their_own(self, one: Leadership) -> None:
        one.look(A, wants_lock=True)
        for another in _closing(self.open_leadership("another")):
            assert another.look(B, wants_lock=True).is_locked
            assert [B] == [each.member for each in another.roll().signs]

    def test_a_lock_ends_with_the_session_that_has_it(
        self, one: Leadership, other: Leadership
    ) -> None:
        before = one.look(A, wants_lock=True)
        waits = other.look(B, wants_lock=True)
        self.cut(one)
        after = other.look(B, wants_lock=True)

        assert (False, True) == (waits.is_locked, after.is_locked)
        assert waits.session == after.session
        again = _look_again(one)
        assert not again.is_locked
        assert before.session != again.session
        assert before.session.server_began_ms == again.session.server_began_ms

    def test_a_look_shows_the_owner_and_its_last_sign(
        self, one: Leadership, other: Leadership
    ) -> None:
        assert (None, None) == _owner(other.look(B, wants_lock=False))
        store = self.open_store()
        claim = store.claim(
            "shop",
            Owner("line/a1", "host-a", 7),
            above=Generation(4),
            now_ms=1,
            alive_until_ms=ALIVE_UNTIL_MS,
            takeover=False,
        )
        assert (claim, None) == _owner(other.look(B, wants_lock=False))

        one.look(A, wants_lock=True)
        sight = other.look(B, wants_lock=False)
        assert (claim, A) == _owner(sight)
        assert ALIVE_UNTIL_MS == sight.alive_until_ms
        store.release("shop", claim)
        assert 0 == other.look(B, wants_lock=False).alive_until_ms
        store.close()

    def test_a_member_is_asked_until_it_has_ended(self, one: Leadership, other: Leadership) -> None:
        other.ask("a1", ANYBODY)  # there is no such member
        assert "" == one.look(A, wants_lock=True).asked
        other.ask("a1", "host-b")

        assert "host-b" == one.look(A, wants_lock=True).asked
        assert "" == other.look(B, wants_lock=False).asked
        one.leave(A)
        assert "" == one.look(A, wants_lock=True).asked

    def test_a_member_that_stands_by_is_asked_no_more(
        self, one: Leadership, other: Leadership
    ) -> None:
        one.look(A, wants_lock=True)
        other.ask("a1", ANYBODY)

        assert "" == one.look(replace(A, role=Role.STANDBY), wants_lock=False).asked
        assert "" == one.look(A, wants_lock=True).asked

    def test_of_those_that_leave_an_owner_is_remembered(
        self, one: Leadership, other: Leadership
    ) -> None:
        one.look(A, wants_lock=True)
        other.look(B, wants_lock=True)
        other.leave(B)
        one.leave(replace(A, offered_to="host-b"))

        assert ["host-b"] == [each.member.offered_to for each in one.roll().signs]
        assert other.look(B, wants_lock=True).is_locked, "who left has no lock"


def _closing(leadership: Leadership) -> Iterator[Leadership]:
    try:
        yield leadership
    finally:
        leadership.close()


def _owner(sight: Sight) -> tuple[Claim | None, Member | None]:
    return sight.claim, None if sight.owner is None else sight.owner.member


def _look_again(leadership: Leadership) -> Sight:
    """Look with another session: the first call may find out that the former one has ended."""
    with suppress(UnavailableError):
        return leadership.look(A, wants_lock=True)
    return leadership.look(A, wants_lock=True)
