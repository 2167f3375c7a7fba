"""`penstock members` and `penstock handover`: who owns a pipeline, who stands by, and a change.

Invariant: what is shown is what members last said, with the store's time; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from penstock.app.assembly import assembly
from penstock.app.standby import required_leadership
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.leadership import (
    ANYBODY,
    OTHER_RULES,
    Member,
    Role,
    Sign,
    has_other_rules,
)
from penstock.ports.runtime import Clock
from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications

POLL_SECONDS = 0.2
READY, ENDED = "ready", "ended"


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """A process of a pipeline. `state` is `owner`, `ready`, `not ready` or `silent`; `trouble` says
    why it is not ready, or takes over only by a hand-over, with the code in front; it was seen
    `seen_seconds` ago.
    """

    id: str
    host: str
    pid: int
    state: str
    trouble: str
    version: str
    seen_seconds: float


def members(spec: Pipeline | Publications, claimed_as: str) -> list[MemberStatus]:
    """List who owns what is claimed by a name, then who stands by for it.

    Raises InvalidError (P521) where the store has no stand-bys, UnavailableError.
    """
    with closing(MemberList(spec, claimed_as)) as listed:
        return listed.members()


def handover(
    spec: Pipeline | Publications,
    claimed_as: str,
    *,
    host: str,
    wait_seconds: float,
    clock: Clock,
    asked: Callable[[], None] = lambda: None,
) -> tuple[MemberStatus, MemberStatus]:
    """Let a stand-by that is ready take over, on `host` if it is not ""; return both owners.

    `asked` is called once the owner was asked. Raises InvalidError (P524) where nobody owns the
    pipeline, UnavailableError (P525) where no stand-by is ready, or none has taken over in time.
    """
    with closing(MemberList(spec, claimed_as)) as listed:
        found = listed.members()
        owner = next((each for each in found if each.state == Role.OWNER), None)
        if owner is None:
            raise InvalidError(
                f"nobody owns {claimed_as} now",
                code="P524",
                hint="penstock members  shows who stands by;"
                f" start one: penstock {_verb(spec)} --standby",
            )
        ready = [each for each in found if each.state == READY and host in ("", each.host)]
        if not ready:
            raise _nobody_ready(spec, claimed_as, host, found)
        listed.leadership.ask(owner.id, host or ANYBODY)
        asked()
        until = clock.monotonic() + wait_seconds
        while clock.monotonic() < until:
            for each in listed.members():
                if each.state == Role.OWNER and each.id != owner.id:
                    return owner, each
            clock.wait(POLL_SECONDS)
    raise UnavailableError(
        f"{claimed_as} was not taken over from {owner.host}, pid {owner.pid}, in "
        f"{wait_seconds:g} s: it finishes its epoch first",
        code="P525",
        hint="see who owns it now:  penstock members",
    )


class MemberList:
    """The members of what is claimed by a name, asked for again and again."""

    def __init__(self, spec: Pipeline | Publications, claimed_as: str) -> None:
        self._claimed_as = claimed_as
        self.leadership = required_leadership(spec, claimed_as)
        self._store = assembly.open_store(spec)

    def members(self) -> list[MemberStatus]:
        """List the owner, then who stands by."""
        roll, held = self.leadership.roll(), self._store.holding(self._claimed_as)
        is_owned = held is not None and held.alive_until_ms > 0
        run = held.claim.run if held is not None and is_owned else ""
        owner = next((each.member for each in roll.signs if each.member.id == run), None)
        found = [_status(each, roll.now_ms, owner) for each in roll.signs]
        shown = [each for each in found if each.state != ENDED]
        return sorted(shown, key=lambda each: (each.state != Role.OWNER, each.host, each.pid))

    def close(self) -> None:
        """Let go of both."""
        self._store.close()
        self.leadership.close()


def _status(sign: Sign, now_ms: int, owner: Member | None) -> MemberStatus:
    me = sign.member
    state, trouble = _state(sign, now_ms, owner), me.trouble
    if state == READY and owner is not None and has_other_rules(me, owner):
        trouble = f"{OTHER_RULES.code}  its rules are not the owner's: by a hand-over only"
    seen_seconds = (now_ms - sign.seen_ms) / 1000
    return MemberStatus(me.id, me.host, me.pid, state, trouble, me.version, seen_seconds)


def _state(sign: Sign, now_ms: int, owner: Member | None) -> str:
    if sign.member.role is Role.OWNER and (owner is None or sign.member.id != owner.id):
        return ENDED
    if sign.is_silent(now_ms):
        return "silent"
    if sign.member.role is Role.OWNER:
        return Role.OWNER.value
    return READY if sign.is_ready(now_ms) else "not ready"


def _verb(spec: Pipeline | Publications) -> str:
    """Return the command that runs what a spec has."""
    return "run" if isinstance(spec, Pipeline) else "publish"


def _nobody_ready(
    spec: Pipeline | Publications, name: str, host: str, found: list[MemberStatus]
) -> UnavailableError:
    where = f" on {host}" if host else ""
    others = [each for each in found if each.state != Role.OWNER and host in ("", each.host)]
    said = "; ".join(
        f"{each.host}, pid {each.pid}: {each.trouble or each.state}" for each in others
    )
    return UnavailableError(
        f"no stand-by of {name}{where} is ready{f': {said}' if said else ''}",
        code="P525",
        hint="start one, and wait until  penstock members  shows it ready:"
        f"  penstock {_verb(spec)} --standby",
    )
