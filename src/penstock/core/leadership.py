"""Who is to own a pipeline when its owner ends: what a stand-by sees, and what it may conclude.

Advisory, all of it: a wrong answer costs a take-over, never a record. What may be committed is
decided by generations and by the compare-and-set of each table (protocol.md 3, docs/design/0325).

Invariants:
- times are the database's, so that hosts' clocks do not matter;
- a lock that was gained proves no death: its holder's session may have been cut, or the server
  restarted; only a session that outlived the owner's last sign of life may conclude it;
- silence proves no death to who was deaf: it counts only while who looks was answered himself;
- nobody waits for a lock for ever: who holds it may hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.core.claims import Claim
from penstock.core.errors import DecisionNeededError, InvalidError, PenstockError

SILENT_AFTER_MS = 5_000
"""An owner that gave no sign of life for so long is taken for dead, though it holds its lock."""
GAP_MS = 2_500
"""Who was not answered for so long was deaf: the database was away, or is slow."""
OFFERED_MS = 30_000
"""So long a pipeline that was handed over is left to whom it was offered; then anybody claims."""
ANYBODY = "*"
"""What a pipeline is handed over to where no host is named."""

OTHER_RULES = DecisionNeededError(
    "its rules are not those of the owner that has ended",
    code="P523",
    hint="to begin with them:  penstock run --takeover;  of a publication:  penstock publish"
    " --takeover",
)
POOLED = InvalidError(
    "a pooler shares the owner's session, so that its lock says nothing",
    code="P522",
    hint="name the PostgreSQL server itself at pending.store",
)


class Role(StrEnum):
    """What a process is for a pipeline."""

    OWNER = "owner"
    STANDBY = "stand-by"


class Reason(StrEnum):
    """Why a pipeline changed its owner."""

    FIRST = "nobody owned it"
    RELEASED = "its owner had ended"
    HANDED_OVER = "handed over"
    DIED = "its owner died"
    SILENT = "its owner was silent"


CHOSEN = frozenset({Reason.FIRST, Reason.HANDED_OVER})
"""Reasons for which an owner with other rules may follow: a person wanted it."""


@dataclass(frozen=True, slots=True)
class Member:
    """A process that owns a pipeline or stands by for it, as it last said.

    `trouble` says why it is not ready, with the code in front; "" when it is. `rules` is the
    hash of the rules that it lands by, `offered_to` the host that it hands over to (`ANYBODY`), ""
    for none.
    """

    id: str
    host: str
    pid: int
    role: Role
    trouble: str = ""
    version: str = ""
    rules: str = ""
    offered_to: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """A connection to the database: the backend that serves it, since when, of which server start.

    Times in milliseconds since the epoch, by the server.
    """

    backend: int
    began_ms: int
    server_began_ms: int


@dataclass(frozen=True, slots=True)
class Sign:
    """The last sign of life of a member: when, through which session, and whether that had the
    pipeline's lock.
    """

    member: Member
    seen_ms: int
    session: Session
    is_locked: bool

    def is_silent(self, now_ms: int) -> bool:
        """Return whether there was no sign for so long that the member is taken for dead."""
        return self.seen_ms + SILENT_AFTER_MS <= now_ms

    def is_ready(self, now_ms: int) -> bool:
        """Return whether this is a stand-by that can take over."""
        me = self.member
        return me.role is Role.STANDBY and not me.trouble and not self.is_silent(now_ms)


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look shows: the newest claim, its owner's last sign, and whether the lock is ours.

    `owner` is None where the owner never gave a sign: a release that knows none, or a lost row.
    `alive_until_ms` is what it said to its store (0: it has ended), by its host's clock. `asked` is
    the host that who looks was asked to hand over to (`ANYBODY`), "" for none. `since_ms` is since
    when this claim, and whether it has ended, was seen so by who looks, who was not deaf: it is his
    to remember (`Watch`).
    """

    now_ms: int
    session: Session
    is_locked: bool
    claim: Claim | None = None
    alive_until_ms: int = 0
    owner: Sign | None = None
    asked: str = ""
    since_ms: int = 0

    @property
    def is_old(self) -> bool:
        """Return whether nothing has changed for so long that somebody is silent."""
        return self.since_ms + SILENT_AFTER_MS <= self.now_ms


@dataclass(slots=True)
class Watch:
    """What who looks again and again remembers: since when what he sees is the same."""

    _now_ms: int = 0
    _since_ms: int = 0
    _state: tuple[Claim | None, bool] = (None, False)

    def seen(self, sight: Sight) -> Sight:
        """Return a sight with the time from when on it was as it is."""
        state = (sight.claim, sight.alive_until_ms == 0)
        if state != self._state or sight.now_ms - self._now_ms > GAP_MS:
            self._since_ms = sight.now_ms
        self._now_ms, self._state = sight.now_ms, state
        return replace(sight, since_ms=self._since_ms)


@dataclass(frozen=True, slots=True)
class Roll:
    """The last signs of life of a pipeline's members, the newest first, and the store's time."""

    now_ms: int
    signs: Sequence[Sign]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do; where `unlock`, the lock is to be given back to a living owner. `trouble` is
    what keeps a stand-by from its turn.
    """

    unlock: bool = False
    trouble: PenstockError | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """The pipeline is to be claimed."""

    reason: Reason


def judge(me: Member, sight: Sight) -> Take | Wait:
    """Return what a stand-by that is ready does at a sight.

    One that has lost its owner to death or silence, and lands by other rules, waits for a person:
    else yesterday's rules would be levelled in, and today's undone, in silence.
    """
    owner = sight.owner
    assert not me.offered_to, "who hands over does not ask"
    if sight.claim is None:
        return Take(Reason.FIRST) if _is_free(sight, None) else Wait()
    if owner is not None and owner.member.id == me.id:  # our turn is over, though nobody was told
        owner, sight = None, replace(sight, alive_until_ms=0)
    reason = _reason(me, sight, owner)
    if reason is None:
        return Wait(unlock=sight.is_locked)
    if reason not in CHOSEN and owner is not None and has_other_rules(me, owner.member):
        return Wait(unlock=True, trouble=OTHER_RULES)
    return Take(reason)


def has_other_rules(me: Member, owner: Member) -> bool:
    """Return whether two members are known to land by different rules."""
    return bool(owner.rules) and owner.rules != me.rules


def _is_free(sight: Sight, owner: Sign | None) -> bool:
    """Return whether what nobody owns may be claimed: the lock is ours, or who has it is silent.

    An owner that has ended and gives signs claims again at once: it levels its tables.
    """
    if sight.is_locked or not sight.is_old:
        return sight.is_locked
    if owner is None or owner.member.role is Role.STANDBY:
        return True
    return owner.is_silent(sight.now_ms)


def _reason(me: Member, sight: Sight, owner: Sign | None) -> Reason | None:
    if sight.alive_until_ms == 0:
        return _after_end(me, sight, owner) if _is_free(sight, owner) else None
    if owner is None:
        return Reason.SILENT if sight.alive_until_ms <= sight.now_ms else None
    is_over = owner.is_silent(sight.now_ms) or owner.member.role is Role.STANDBY
    if is_over and sight.is_old:
        return Reason.SILENT
    return Reason.DIED if sight.is_locked and _outlived(sight.session, owner) else None


def _after_end(me: Member, sight: Sight, owner: Sign | None) -> Reason | None:
    if owner is None or not owner.member.offered_to:
        return Reason.RELEASED
    is_free = owner.seen_ms + OFFERED_MS <= sight.now_ms
    is_meant = owner.member.offered_to in (ANYBODY, me.host)
    return Reason.HANDED_OVER if is_meant or is_free else None


def _outlived(mine: Session, owner: Sign) -> bool:
    """Return whether the lock became ours because the owner's session ended, and no other did."""
    theirs = owner.session
    return (
        owner.is_locked
        and mine.server_began_ms == theirs.server_began_ms
        and mine.backend != theirs.backend
        and mine.began_ms <= owner.seen_ms
    )


def is_pooled(me: Member, sight: Sight) -> bool:
    """Return whether our session is the owner's: a pooler lies between, and locks mean nothing."""
    owner = sight.owner
    if owner is None or owner.member.id == me.id:
        return False
    return owner.is_locked and owner.session == sight.session
