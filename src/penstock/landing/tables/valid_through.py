"""Through what time all of a table's records have been read (docs/design/0222).

The least of its partitions counts. A partition counts with the time of a listing once it was read
to the end listed then; where a transaction was open at that end, with its newest record at most.
What was read on the way there proves nothing: timestamps need not ascend.

Invariant: it never moves backwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from penstock.core.offsets import Positions, TopicPartition
from penstock.core.planning import Bounds


@dataclass(frozen=True, slots=True)
class ValidThrough:
    """The time of one table, None while it is not known, with what it is worked out from.

    `_targets` are bounds of partitions and when they were listed: once all before their end is
    read, all up to then is there.
    """

    at_ms: int | None = None
    _newest_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    _targets: Mapping[TopicPartition, tuple[Bounds, int]] = field(default_factory=dict)
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
        newest, through = dict(self._newest_ms), dict(self._through_ms)
        targets = dict(self._targets)
        for at in wanted:
            if at in newest_ms:
                newest[at] = max(newest.get(at, newest_ms[at]), newest_ms[at])
            bounds = listed.get(at)
            if at not in examined or bounds is None:
                continue
            now = (bounds, listed_at_ms)
            for ended, ms in (targets.get(at, now), now):
                if examined[at] < ended.stop:
                    continue
                targets.pop(at, None)
                sealed = ended.stop == ended.high  # no transaction was open
                if sealed or at in newest:
                    passed = ms if sealed else min(newest[at], ms)
                    through[at] = max(through.get(at, passed), passed)
            if examined[at] < bounds.stop:
                targets.setdefault(at, now)
        at_ms = self.at_ms
        if wanted and all(at in through for at in wanted):
            least = min(through[at] for at in wanted)
            at_ms = max(at_ms or least, least)
        return ValidThrough(at_ms, newest, targets, through)
