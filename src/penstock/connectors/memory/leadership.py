"""Leadership in memory: the same promises as PostgreSQL's, with sessions that a test can cut."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.connectors.memory.store import MemoryStore
from penstock.core.leadership import Member, Role, Roll, Session, Sight, Sign


@dataclass(slots=True, eq=False)
class MemoryServer:
    """What the members of all pipelines share: signs, locks, and a clock in milliseconds."""

    store: MemoryStore
    now_ms: Callable[[], int]
    began_ms: int = 0
    guard: threading.RLock = field(default_factory=threading.RLock)
    signs: dict[tuple[str, str], Sign] = field(default_factory=dict)
    asked: dict[tuple[str, str], str] = field(default_factory=dict)
    locks: dict[str, int] = field(default_factory=dict)
    """The backend that holds each lock."""
    backends: int = 0

    def restart(self) -> None:
        """End all sessions, and so all locks; what was written stays."""
        with self.guard:
            self.began_ms = self.now_ms()
            self.locks.clear()


class MemoryLeadership:
    """Implements `ports.leadership.Leadership`."""

    def __init__(self, server: MemoryServer, pipeline: str) -> None:
        self._server, self._pipeline = server, pipeline
        self._session: Session | None = None

    def look(self, me: Member, *, wants_lock: bool) -> Sight:
        """Give a sign of life, try to get the lock if it is wanted, and return what is so."""
        server = self._server
        with server.guard:
            session = self._connected()
            if wants_lock:
                server.locks.setdefault(self._pipeline, session.backend)
            self._sign(me, session)
            asked = server.asked.get((self._pipeline, me.id), "")
            held = server.store.holding(self._pipeline)
            if held is None:
                return Sight(server.now_ms(), session, self._is_locked, asked=asked)
            owner = server.signs.get((self._pipeline, held.claim.run))
            return Sight(
                server.now_ms(),
                session,
                self._is_locked,
                held.claim,
                held.alive_until_ms,
                owner,
                asked,
            )

    def unlock(self) -> None:
        """Give the lock back; a no-op without it."""
        with self._server.guard:
            if self._is_locked:
                del self._server.locks[self._pipeline]

    def ask(self, member: str, host: str) -> None:
        """Ask a member to hand over to a host."""
        with self._server.guard:
            key = (self._pipeline, member)
            if key in self._server.signs:
                self._server.asked[key] = host

    def roll(self) -> Roll:
        """List the last signs of life of the pipeline's members."""
        with self._server.guard:
            found = [
                sign
                for (pipeline, _), sign in self._server.signs.items()
                if pipeline == self._pipeline
            ]
            newest_first = sorted(found, key=lambda each: (-each.seen_ms, each.member.id))
            return Roll(self._server.now_ms(), newest_first)

    def leave(self, me: Member) -> None:
        """Give the last sign: the member has ended. A stand-by is forgotten."""
        with self._server.guard:
            self._server.asked.pop((self._pipeline, me.id), None)
            if me.role is Role.STANDBY:
                self._server.signs.pop((self._pipeline, me.id), None)
            else:
                self._sign(me, self._connected())
            self.unlock()

    def close(self) -> None:
        """Let go of the session, and so of the lock."""
        self.unlock()
        self._session = None

    @property
    def _is_locked(self) -> bool:
        session = self._session
        return session is not None and self._server.locks.get(self._pipeline) == session.backend

    def _connected(self) -> Session:
        server, session = self._server, self._session
        if session is None or session.server_began_ms != server.began_ms:
            server.backends += 1
            session = Session(server.backends, server.now_ms(), server.began_ms)
            self._session = session
        return session

    def _sign(self, me: Member, session: Session) -> None:
        if me.role is Role.STANDBY:  # it has nothing to hand over
            self._server.asked.pop((self._pipeline, me.id), None)
        sign = Sign(me, self._server.now_ms(), session, self._is_locked)
        self._server.signs[self._pipeline, me.id] = sign
