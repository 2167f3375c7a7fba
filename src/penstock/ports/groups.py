"""A consumer group by which nobody consumes: its offsets follow what has landed, for lag tools."""

from __future__ import annotations

from typing import Protocol

from penstock.core.offsets import Positions


class GroupOffsets(Protocol):
    """The committed offsets of one consumer group; used by one thread at a time.

    Every call raises UnavailableError where no broker answers, and InvalidError where the group may
    not be used (P202, P213: it has members).
    """

    def require_unused(self) -> None:
        """Raise InvalidError (P213) while the group has members."""

    def put(self, offsets: Positions, metadata: str) -> None:
        """Commit offsets for the group: each the next to land. Metadata are for people."""

    def close(self) -> None:
        """Let go of connections."""


class Follower(Protocol):
    """Is told what has landed."""

    @property
    def is_due(self) -> bool:
        """Return whether it wants to be told again."""

    def offer(self, landed: Positions) -> None:
        """Take what has landed in all tables, and return at once."""
