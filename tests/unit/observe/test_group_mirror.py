"""A consumer group that follows what has landed: what is written to it, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.core.outlook_events import GroupNotMoved
from penstock.observe import group_mirror
from penstock.observe.group_mirror import EVERY_SECONDS, GroupMirror

ONE, TWO = (TopicPartition("id", number, "orders") for number in range(2))
AWAY = UnavailableError("no broker answers", code="P201", hint="")
IN_USE = InvalidError("group g has members", code="P213", hint="")


@dataclass
class Group:
    """A group whose coordinator refuses as often as it has refusals left."""

    refusals: list[Exception] = field(default_factory=list)
    members: int = 0
    is_known: bool = True
    written: list[Positions] = field(default_factory=list)
    is_open: bool = True

    def require_unused(self) -> None:
        if not self.is_known:
            raise AWAY
        if self.members:
            raise IN_USE

    def put(self, offsets: Positions, metadata: str) -> None:
        assert metadata == "penstock shop"
        if self.refusals:
            raise self.refusals.pop(0)
        self.written.append(offsets)

    def close(self) -> None:
        self.is_open = False


def mirror(group: Group, clock, heard: list) -> GroupMirror:
    return GroupMirror(group, "g", "penstock shop", heard.append, clock)


def test_only_what_changed_is_written(clock) -> None:
    group = Group()
    follower = mirror(group, clock, [])
    for offered in ({ONE: 5, TWO: 1}, {ONE: 5, TWO: 1}, {ONE: 7, TWO: 1}, {ONE: 3, TWO: 2}):
        follower.offer({at: Offset(to) for at, to in offered.items()})
        follower.write()

    assert [{ONE: 5, TWO: 1}, {ONE: 7}, {ONE: 3, TWO: 2}] == group.written


def test_what_was_offered_last_is_written_at_the_end(clock) -> None:
    group = Group()
    with mirror(group, clock, []) as follower:
        follower.offer({ONE: Offset(5)})

    assert [{ONE: 5}] == group.written
    assert not group.is_open


def test_it_is_due_five_seconds_after_an_offer(clock) -> None:
    follower = mirror(Group(), clock, [])
    assert follower.is_due
    follower.offer({ONE: Offset(5)})
    assert not follower.is_due
    clock.wait(EVERY_SECONDS)
    assert follower.is_due


def test_a_group_that_cannot_be_moved_is_told_of_once_and_tried_again(clock) -> None:
    group, heard = Group([AWAY, AWAY, IN_USE]), []
    follower = mirror(group, clock, heard)
    follower.offer({ONE: Offset(5)})
    for _ in range(4):
        follower.write()

    assert [{ONE: 5}] == group.written
    assert heard == [GroupNotMoved("g", AWAY.line), GroupNotMoved("g", IN_USE.line)]


def test_a_group_with_members_is_refused_at_the_start(clock) -> None:
    with pytest.raises(InvalidError, match="has members"), mirror(Group(members=1), clock, []):
        pass


def test_a_group_whose_coordinator_does_not_answer_holds_up_nothing(clock) -> None:
    group, heard = Group(is_known=False), []
    with mirror(group, clock, heard) as follower:
        assert heard == [GroupNotMoved("g", AWAY.line)]
        follower.offer({ONE: Offset(5)})
        follower.write()
        follower.offer({ONE: Offset(6)})

    assert group.written[-1] == {ONE: 6}
    assert heard == [GroupNotMoved("g", AWAY.line)]


def test_nobody_waits_at_the_end_for_a_coordinator_that_did_not_answer(clock, monkeypatch) -> None:
    monkeypatch.setattr(group_mirror, "LOOK_SECONDS", 3_600)
    group = Group([AWAY], is_known=False)
    with mirror(group, clock, []) as follower:
        follower.offer({ONE: Offset(5)})

    assert [AWAY] == group.refusals, "it was not asked again"
    assert not group.is_open
