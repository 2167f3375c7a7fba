"""Leadership of a pipeline: a lock that ends with its holder, and signs of life. Never the truth.

What it says is a hint that is quick: generations and compare-and-set hold without it (protocol.md 3
and 6, docs/design/0325).
"""

from __future__ import annotations

from typing import Protocol

from penstock.core.leadership import Member, Roll, Sight


class Leadership(Protocol):
    """One process's view of who owns a pipeline and who stands by; used by one thread at a time.

    Every call raises UnavailableError when the store does not answer; the next one asks anew, with
    another session: the lock is lost by then.
    """

    def look(self, me: Member, *, wants_lock: bool) -> Sight:
        """Give a sign of life, try to get the lock if it is wanted, and return what is so.

        It does not wait for the lock. One that is held stays so until `unlock`, or its session
        ends.
        """

    def unlock(self) -> None:
        """Give the lock back; a no-op without it."""

    def ask(self, member: str, host: str) -> None:
        """Ask a member to hand over to a host: it is told so until it leaves, or stands by.

        A no-op where there is no such member.
        """

    def roll(self) -> Roll:
        """List the last signs of life of the pipeline's members."""

    def leave(self, me: Member) -> None:
        """Give the last sign: the member has ended, and what it was asked is done.

        Its lock is given back; a stand-by is forgotten.
        """

    def close(self) -> None:
        """Let go of the session, and so of the lock."""
