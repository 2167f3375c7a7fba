"""How many commits are worth making at once: more while more land, and the processor is not full.

A commit waits for answers of a catalog and a storage most of its time, so how many it takes to keep
a process busy depends on how late those are. It is found out: a step up is kept where it paid.

Invariants:
- between `LEAST` and `MOST`;
- no step up where the process takes `CPU_SHARE_MAX` of a core by itself: commits would only wait
  for each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

LEAST, MOST = 8, 64
CPU_SHARE_MAX = 0.7
STEP = 1.5
GAIN = 1.05
"""A step that makes commits no faster than this is taken back."""
HELD_MAX = 16
"""After so many judgements a step that did not pay is tried again: something else may have stood in
the way just then, and a run that has always something to commit comes to no pause.
"""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many at once; `former` and `per_second_before` are of before the step on trial, if any.

    `most` is as many as paid, until commits begin anew after a pause, or it was `held` for long.
    """

    at_once: int = LEAST
    most: int = MOST
    former: int = 0
    per_second_before: float = 0.0
    held: int = 0

    def after(self, per_second: float, cpu_share: float) -> Pace:
        """Return the pace after so many commits a second, at so much of a core.

        It counts only for a time in which there were more commits to make than that.
        """
        if self.former and per_second < GAIN * self.per_second_before:
            return Pace(self.former, self.former)
        most = self.most if self.held < HELD_MAX else MOST
        if cpu_share >= CPU_SHARE_MAX or self.at_once >= most:
            return replace(self, former=0, held=self.held + 1)
        wider = min(round(STEP * self.at_once), most)
        return Pace(wider, most, former=self.at_once, per_second_before=per_second)

    def resumed(self) -> Pace:
        """Return the pace after a pause: answers may be later by now, or sooner."""
        return Pace(self.at_once)
