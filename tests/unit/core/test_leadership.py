"""What a stand-by concludes from what it sees: a table of sights."""

from dataclasses import replace

import pytest

from penstock.core.claims import Claim, Generation
from penstock.core.leadership import (
    ANYBODY,
    GAP_MS,
    OFFERED_MS,
    OTHER_RULES,
    SILENT_AFTER_MS,
    Member,
    Reason,
    Role,
    Session,
    Sight,
    Sign,
    Take,
    Wait,
    Watch,
    is_pooled,
    judge,
)

NOW = 1_000_000
ME = Member("me", "here", 1, Role.STANDBY, rules="r")
THEIRS, MINE = Session(10, NOW - 90_000, 5), Session(11, NOW - 80_000, 5)
OWNER = Sign(
    Member("o", "there", 2, Role.OWNER, rules="r"), NOW - 700, session=THEIRS, is_locked=True
)
WATCHED, FRESH = NOW - SILENT_AFTER_MS, NOW - SILENT_AFTER_MS + 1
CLAIM = Claim(Generation(3), "l/o")
ALIVE = Sight(NOW, MINE, False, CLAIM, NOW + 15_000, OWNER, since_ms=WATCHED)
LOCKED = replace(ALIVE, is_locked=True)
ENDED = replace(LOCKED, alive_until_ms=0, since_ms=FRESH)


def owner(**changes):
    return replace(OWNER, **changes)


def said(**changes):
    return replace(OWNER, member=replace(OWNER.member, **changes))


SILENT = owner(seen_ms=NOW - SILENT_AFTER_MS)
OTHERWISE = said(rules="s")
OFFERED, OFFERED_AWAY = said(offered_to=ANYBODY), said(offered_to="elsewhere")
AWAY_AND_SILENT = replace(OFFERED_AWAY, seen_ms=NOW - SILENT_AFTER_MS)
SIGHTS = {
    "nobody owned it": (Sight(NOW, MINE, True), Take(Reason.FIRST)),
    "nobody owned it, another is first": (Sight(NOW, MINE, False, since_ms=FRESH), Wait()),
    "nobody owned it, and who has the lock does nothing": (
        Sight(NOW, MINE, False, since_ms=WATCHED),
        Take(Reason.FIRST),
    ),
    "the owner lives": (ALIVE, Wait()),
    "its session ended": (LOCKED, Take(Reason.DIED)),
    "it lives, and never had the lock": (
        replace(LOCKED, owner=owner(is_locked=False)),
        Wait(unlock=True),
    ),
    "the server restarted": (replace(LOCKED, session=replace(MINE, server_began_ms=6)), Wait(True)),
    "our session is younger than its sign": (
        replace(LOCKED, session=replace(MINE, began_ms=NOW - 699)),
        Wait(unlock=True),
    ),
    "our session is as old as its sign": (
        replace(LOCKED, session=replace(MINE, began_ms=NOW - 700)),
        Take(Reason.DIED),
    ),
    "our session is its session": (replace(LOCKED, session=THEIRS), Wait(unlock=True)),
    "it is silent, and holds the lock": (replace(ALIVE, owner=SILENT), Take(Reason.SILENT)),
    "it is silent, and so was the database to us": (
        replace(ALIVE, owner=SILENT, since_ms=FRESH),
        Wait(),
    ),
    "it was heard just in time": (
        replace(ALIVE, owner=owner(seen_ms=NOW - SILENT_AFTER_MS + 1)),
        Wait(),
    ),
    "it gives no signs, and lives": (replace(LOCKED, owner=None), Wait(unlock=True)),
    "it gives no signs, and its time is over": (
        replace(ALIVE, owner=None, alive_until_ms=NOW),
        Take(Reason.SILENT),
    ),
    "it ended": (ENDED, Take(Reason.RELEASED)),
    "it ended, another has the lock": (replace(ENDED, is_locked=False), Wait()),
    "it ended, and who has the lock does nothing": (
        replace(ENDED, is_locked=False, since_ms=WATCHED, owner=SILENT),
        Take(Reason.RELEASED),
    ),
    "it ended and stands by, and who has the lock does nothing": (
        replace(ENDED, is_locked=False, since_ms=WATCHED, owner=said(role=Role.STANDBY)),
        Take(Reason.RELEASED),
    ),
    "it ended unseen, and who has the lock does nothing": (
        replace(ENDED, is_locked=False, since_ms=WATCHED, owner=None),
        Take(Reason.RELEASED),
    ),
    "it ended, keeps the lock, and will claim again": (
        replace(ENDED, is_locked=False, since_ms=WATCHED),
        Wait(),
    ),
    "it was handed over to another, and who has the lock does nothing": (
        replace(ENDED, is_locked=False, since_ms=WATCHED, owner=AWAY_AND_SILENT),
        Wait(),
    ),
    "it ended unseen": (replace(ENDED, owner=None), Take(Reason.RELEASED)),
    "it was ours": (replace(ENDED, owner=said(id="me")), Take(Reason.RELEASED)),
    "it was ours, and the store was not told that it ended": (
        replace(LOCKED, owner=said(id="me")),
        Take(Reason.RELEASED),
    ),
    "it stands by, and the store was not told that it ended": (
        replace(ALIVE, owner=said(role=Role.STANDBY)),
        Take(Reason.SILENT),
    ),
    "it stood by, and has just claimed": (
        replace(ALIVE, owner=said(role=Role.STANDBY), since_ms=FRESH),
        Wait(),
    ),
    "it was handed over to anybody": (replace(ENDED, owner=OFFERED), Take(Reason.HANDED_OVER)),
    "it was handed over to us": (
        replace(ENDED, owner=said(offered_to="here")),
        Take(Reason.HANDED_OVER),
    ),
    "it was handed over to another": (replace(ENDED, owner=OFFERED_AWAY), Wait(unlock=True)),
    "it was handed over to another, long ago": (
        replace(ENDED, owner=replace(OFFERED_AWAY, seen_ms=NOW - OFFERED_MS)),
        Take(Reason.HANDED_OVER),
    ),
    "it died, with other rules": (
        replace(LOCKED, owner=OTHERWISE),
        Wait(unlock=True, trouble=OTHER_RULES),
    ),
    "it was silent, with other rules": (
        replace(ALIVE, owner=replace(OTHERWISE, seen_ms=0)),
        Wait(unlock=True, trouble=OTHER_RULES),
    ),
    "it ended, with other rules": (
        replace(ENDED, owner=OTHERWISE),
        Wait(unlock=True, trouble=OTHER_RULES),
    ),
    "it was handed over, with other rules": (
        replace(ENDED, owner=said(rules="s", offered_to=ANYBODY)),
        Take(Reason.HANDED_OVER),
    ),
    "its rules are not known": (replace(LOCKED, owner=said(rules="")), Take(Reason.DIED)),
}


@pytest.mark.parametrize("name", SIGHTS)
def test_a_stand_by_takes_its_turn_or_waits(name):
    sight, expected = SIGHTS[name]

    assert expected == judge(ME, sight)


def test_what_is_seen_is_as_old_as_what_has_not_changed_since():
    watch, since = Watch(), []
    ended = replace(ALIVE, alive_until_ms=0)
    newer = replace(ended, claim=Claim(Generation(4), "l/p"))
    for seconds, sight in ((0, ALIVE), (2, ALIVE), (4, ended), (6, ended), (8, newer), (10, newer)):
        since.append(watch.seen(replace(sight, now_ms=NOW + 1000 * seconds)).since_ms - NOW)

    assert [0, 0, 4000, 4000, 8000, 8000] == since


def test_who_was_not_answered_for_long_begins_to_watch_anew():
    watch = Watch()
    gaps = (0, GAP_MS, GAP_MS + 1)
    seen = [watch.seen(replace(ALIVE, now_ms=NOW + sum(gaps[: at + 1]))) for at in range(len(gaps))]

    assert [NOW, NOW, NOW + sum(gaps)] == [each.since_ms for each in seen]


def test_a_session_of_two_members_is_a_poolers():
    shared = replace(LOCKED, session=THEIRS)

    assert [False, True] == [is_pooled(ME, LOCKED), is_pooled(ME, shared)]
    assert not is_pooled(ME, replace(shared, owner=said(id="me")))


def test_a_stand_by_is_ready_while_it_is_heard_and_has_no_trouble():
    sign = Sign(ME, NOW, MINE, is_locked=False)
    late = NOW + SILENT_AFTER_MS

    assert [True, False] == [sign.is_ready(late - 1), sign.is_ready(late)]
    assert not replace(sign, member=replace(ME, trouble="P430")).is_ready(NOW)
    assert not OWNER.is_ready(NOW)
