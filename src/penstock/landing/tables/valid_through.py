"""Through what time all of a table's records have been read (docs/design/0222).

The least of its partitions counts. A partition counts with the time of a listing once it was read
to the end listed then; where a transaction was open at that end, with its newest record at most.
What was read on the way there tells nothing: timestamps need not ascend.

Invariant: it never moves backwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.core.planning import Bounds


@dataclass(frozen=True, slots=True)
class CatchUpTarget:
    """Where a partition ended when it was listed: once all before is read, all up to then is there.

    `sealed`: no transaction was open then.
    """

    stop: Offset
    listed_at_ms: int
    sealed: bool

    def passed_ms(self, newest_ms: int | None) -> int | None:
        """Return the time that counts once it is reached; `newest_ms` is the newest record's."""
        if self.sealed:
            return self.listed_at_ms
        return None if newest_ms is None else min(newest_ms, self.listed_at_ms)


@dataclass(frozen=True, slots=True)
class ValidThrough:
    """The time of one table, None while it is not known, with what it is worked out from."""

    at_ms: int | None = None
    _newest_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    _targets: Mapping[TopicPartition, CatchUpTarget] = field(default_factory=dict)
    _through_ms: Mapping[TopicPartition, int] = field(default_factory=dict)

    def updated(
        self,
        wanted: Collection[TopicPartition],
        examined: Positions,
        newest_ms: Mapping[TopicPartition, int],
        listed: Mapping[TopicPartition, Bounds],
        listed_at_ms: int,
    ) -> ValidThrough:
        """Return it after an epoch, planned on a listing, that examined up to these positions."""
        newest, targets, through = (
            dict(self._newest_ms),
            dict(self._targets),
            dict(self._through_ms),
        )
        for at in wanted:
            if at in newest_ms:
                newest[at] = max(newest.get(at, newest_ms[at]), newest_ms[at])
            bounds = listed.get(at)
            if at not in examined or bounds is None:
                continue
            now = CatchUpTarget(bounds.stop, listed_at_ms, bounds.stop == bounds.high)
            for target in (targets.get(at), now):
                if target is not None and examined[at] >= target.stop:
                    targets.pop(at, None)
                    passed = target.passed_ms(newest.get(at))
                    if passed is not None:
                        through[at] = max(through.get(at, passed), passed)
            if examined[at] < now.stop:
                targets.setdefault(at, now)
        at_ms = self.at_ms
        if wanted and all(at in through for at in wanted):
            least = min(through[at] for at in wanted)
            at_ms = max(at_ms or least, least)
        return ValidThrough(at_ms, newest, targets, through)
