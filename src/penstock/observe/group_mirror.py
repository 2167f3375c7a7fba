"""Follow with a consumer group what has landed, so that tools which know groups show the lag.

Invariants:
- nothing waits for it, and nothing reads it: a group that cannot be written is told of once, until
  it can be again;
- its offsets are those that have landed in every table, so they go back where a table was sought
  back, and stay where one is parked.
"""

from __future__ import annotations

from typing import Self

from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.offsets import Positions
from penstock.core.outlook_events import GroupNotMoved
from penstock.observe.periodic import periodic
from penstock.ports.groups import GroupOffsets
from penstock.ports.runtime import Clock, Observer

EVERY_SECONDS = 5.0
LOOK_SECONDS = 0.5


class GroupMirror:
    """Implements `ports.groups.Follower` inside its `with` block, which ends with a last write.

    Offsets are written by a thread of its own, at most every five seconds.
    """

    def __init__(
        self, group: GroupOffsets, name: str, metadata: str, observer: Observer, clock: Clock
    ) -> None:
        self._group, self._name, self._metadata = group, name, metadata
        self._observer, self._clock = observer, clock
        self._offered: Positions = {}
        self._written: Positions = {}
        self._told = ""
        self._due_at = clock.monotonic()
        self._writing = periodic(self.write, every_seconds=LOOK_SECONDS, name="mirror-group")

    @property
    def is_due(self) -> bool:
        """Return whether five seconds have passed since the last offer."""
        return self._clock.monotonic() >= self._due_at

    def offer(self, landed: Positions) -> None:
        """Take what has landed in all tables, and return at once."""
        self._offered = landed
        self._due_at = self._clock.monotonic() + EVERY_SECONDS

    def write(self) -> None:
        """Write what was offered last, unless the group has it."""
        offered = self._offered
        changed = {at: to for at, to in offered.items() if self._written.get(at) != to}
        if not changed:
            return
        try:
            self._group.put(changed, self._metadata)
        except PenstockError as error:
            self._tell(error)
        else:
            self._written, self._told = offered, ""

    def __enter__(self) -> Self:
        """Begin to write. Raises InvalidError for a group that may not be used (P213)."""
        try:
            self._group.require_unused()
        except UnavailableError as error:  # landing does not wait for a coordinator of groups
            self._tell(error)
        self._writing.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._writing.__exit__(None, None, None)
        if not self._told:  # nobody waits at the end for a coordinator that did not answer
            self.write()
        self._group.close()

    def _tell(self, error: PenstockError) -> None:
        if error.line != self._told:
            self._observer(GroupNotMoved(self._name, error.line))
        self._told = error.line
