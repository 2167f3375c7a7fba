"""Be a member of a pipeline, or of several: stand by until it is our turn, and show that we own it.

Invariants:
- all of it is advisory: whoever takes his turn claims, reads everything anew, and is held to that
  (protocol.md 3, docs/design/0325);
- an owner whose leadership does not answer goes on; a stand-by waits;
- who hands over does not take its own turn back while it is offered to others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from penstock.core.errors import PenstockError
from penstock.core.leadership import (
    ANYBODY,
    OFFERED_MS,
    POOLED,
    Member,
    Reason,
    Role,
    Sight,
    Take,
    Wait,
    Watch,
    is_pooled,
    judge,
)
from penstock.core.leadership_events import HandoverBegan, LeadershipGained, StandbyChanged
from penstock.ports.leadership import Leadership
from penstock.ports.runtime import Clock, Observer

TRY_SECONDS = 0.5
BEAT_SECONDS = 1.0


@dataclass(slots=True)
class Membership:
    """One process's membership of a pipeline. `me` is what it says of itself; `trouble` returns why
    it is not ready to own, with the code in front, or "".
    """

    pipeline: str
    leadership: Leadership
    me: Member
    trouble: Callable[[], str]
    observer: Observer
    clock: Clock
    _asking: threading.RLock = field(default_factory=threading.RLock)
    _watch: Watch = field(default_factory=Watch)
    _free_since: float = 0.0
    _said: StandbyChanged | None = None

    def begin(self) -> None:
        """Begin to stand by. Raises what `trouble` raises."""
        self._said, self._free_since = None, self.clock.monotonic()
        self._is(Role.STANDBY, self.me.trouble)

    def turn(self) -> Reason | None:
        """Look once; return why the pipeline is ours to claim now, or None.

        Raises what `trouble` raises.
        """
        found, shown = self._tried()
        if isinstance(found, Take):
            self._is(Role.OWNER, "")
            self.observer(LeadershipGained(self.pipeline, found.reason))
            return found.reason
        self._say(shown)
        return None

    def leave(self) -> None:
        """Stand by no longer, or own no longer; an error of the store is passed over."""
        with suppress(PenstockError), self._asking:
            self.leadership.leave(self.me)

    @contextmanager
    def owning(self, hand_over: Callable[[], None]) -> Iterator[None]:
        """Give signs of life inside a `with` block; call `hand_over` when somebody asks for it."""
        self._is(Role.OWNER, "")
        ended = threading.Event()
        thread = threading.Thread(
            target=self._beat, args=(ended, hand_over), name="penstock-leadership", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.leave()

    def offer(self, host: str = ANYBODY) -> None:
        """Say that we give way to a host, before we do."""
        self.observer(HandoverBegan(self.pipeline, host))
        with self._asking:
            self.me = replace(self.me, offered_to=host)
            with suppress(PenstockError):  # then a stand-by waits until we are silent
                self.leadership.look(self.me, wants_lock=False)

    def is_followed(self) -> bool:
        """Return whether a stand-by is there that is ready to take over."""
        try:
            with self._asking:
                roll = self.leadership.roll()
        except PenstockError:
            return False
        return any(each.is_ready(roll.now_ms) for each in roll.signs)

    def close(self) -> None:
        """Let go of the leadership."""
        with self._asking:
            self.leadership.close()

    def _tried(self) -> tuple[Take | Wait, StandbyChanged]:
        """Look once; return what is to be done, and how we stand by."""
        trouble = self.trouble()
        is_ready = not (trouble or self.me.offered_to)
        self._is(Role.STANDBY, trouble)
        try:
            with self._asking:
                sight = self._watch.seen(self.leadership.look(self.me, wants_lock=is_ready))
                found = self._judged(sight) if is_ready else Wait(unlock=sight.is_locked)
                if isinstance(found, Wait) and found.unlock:
                    self.leadership.unlock()
        except PenstockError as error:
            found, owner = Wait(trouble=error), ""
        else:
            owner = _owner(sight)
            self._withdraw(sight)
        judged = found.trouble if isinstance(found, Wait) else None
        shown = trouble or (judged.line if judged else "")
        return found, StandbyChanged(self.pipeline, owner, shown)

    def _judged(self, sight: Sight) -> Take | Wait:
        if not is_pooled(self.me, sight):
            return judge(self.me, sight)
        found = judge(self.me, replace(sight, is_locked=False))
        return found if isinstance(found, Take) else Wait(unlock=sight.is_locked, trouble=POOLED)

    def _withdraw(self, sight: Sight) -> None:
        """End our offer when somebody took it, or nobody did for long after our turn."""
        waited_ms = (self.clock.monotonic() - self._free_since) * 1000
        is_taken = sight.claim is not None and sight.alive_until_ms > 0
        if self.me.offered_to and (is_taken or waited_ms > OFFERED_MS):
            self.me = replace(self.me, offered_to="")

    def _beat(self, ended: threading.Event, hand_over: Callable[[], None]) -> None:
        asked = ""
        while not ended.is_set():
            with suppress(PenstockError), self._asking:
                sight = self.leadership.look(self.me, wants_lock=not self.me.offered_to)
                if sight.asked and not asked:
                    asked = sight.asked
                    self.offer(asked)
                    hand_over()
            ended.wait(BEAT_SECONDS)

    def _is(self, role: Role, trouble: str) -> None:
        offered = self.me.offered_to if role is Role.STANDBY else ""
        self.me = replace(self.me, role=role, trouble=trouble, offered_to=offered)

    def _say(self, event: StandbyChanged) -> None:
        if event != self._said:
            self._said = event
            self.observer(event)


def await_turn(
    members: Sequence[Membership], clock: Clock, stop: threading.Event
) -> tuple[Membership, Reason] | None:
    """Stand by until a pipeline is to be claimed: of several the first; the others are left then.

    None when asked to stop before. Raises what `trouble` raises.
    """
    taken: Membership | None = None
    try:
        for each in members:
            each.begin()
        while not stop.is_set():
            for each in members:
                if reason := each.turn():
                    taken = each
                    return each, reason
            clock.wait(TRY_SECONDS)
    finally:
        for each in members:
            if each is not taken:
                each.leave()
    return None


def _owner(sight: Sight) -> str:
    if sight.claim is None or sight.owner is None or sight.alive_until_ms == 0:
        return ""
    return f"{sight.owner.member.host} {sight.owner.member.pid}"
