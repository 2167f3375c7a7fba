"""Events of stand-bys and changes of owner; the rules of `events.py` hold for them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.events import Event


@dataclass(frozen=True, slots=True)
class StandbyChanged(Event):
    """A process stands by for a pipeline; `trouble` says why it could not take over, "" if it can.

    `owner` is whom it stands by for, as `host pid`; "" while nobody owns the pipeline.
    """

    pipeline: str
    owner: str
    trouble: str

    @property
    def text(self) -> str:
        """Say for people what it stands by for, or what is in the way."""
        if self.trouble:
            return f"could not take over: {self.trouble}"
        return f"ready to take over from {self.owner}" if self.owner else "ready to take over"


@dataclass(frozen=True, slots=True)
class LeadershipGained(Event):
    """A stand-by takes its turn, for a reason."""

    pipeline: str
    reason: str


@dataclass(frozen=True, slots=True)
class HandoverBegan(Event):
    """The owner gives way to a host (`*`: to any), after its current epoch."""

    pipeline: str
    host: str
