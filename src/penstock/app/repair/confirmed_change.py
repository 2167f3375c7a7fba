"""What commands that change a pipeline by hand share: a plan to show, consent, and a hold.

The way of each: look without writing, show the `Change`, have the pipeline's name given
(`consented`), then hold the pipeline as a run does, look again, and act (`holding`).

Invariants:
- nothing is written before consent;
- what is done was decided under the hold, on what is there then; the plan shown is a forecast;
- while a run is alive, the change is refused (P510).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from penstock.app.assembly import assembly
from penstock.app.assembly.crash_points import observer_for
from penstock.core.errors import InvalidError
from penstock.engines.inline import InlineEngine
from penstock.landing.repair.access import ExclusiveAccess, exclusive_access
from penstock.observe.fanout import Observers
from penstock.ports.runtime import Observer
from penstock.spec.model import Pipeline


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a change would do, as a sentence; `destructive` ones cannot be taken back."""

    text: str
    destructive: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What a command would do to a pipeline. Without steps there is nothing to do."""

    pipeline: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did: `data` for machines, `lines` for people."""

    data: Mapping[str, Any]
    lines: tuple[str, ...]


def require_consent(change: Change, given: str) -> None:
    """Take the name that was given for consent. Raises InvalidError (P171) for another one."""
    if given != change.pipeline:
        raise InvalidError(
            f"{given[:80]!r} is not the name of this pipeline, so nothing was changed",
            code="P171",
            hint=f"to make the change:  --yes {change.pipeline}",
        )


@contextmanager
def exclusive_change(
    pipeline: Pipeline, *, observer: Observer | None = None, faults: str = ""
) -> Iterator[ExclusiveAccess]:
    """Hold a pipeline while it is changed. Its records are worked on in this process, at first.

    Raises UnavailableError (P510) while another owner is alive, or when brokers, catalog or store
    are gone.
    """
    listener = Observers(*([observer] if observer else []), observer_for(faults))
    with ExitStack() as stack:
        environment = assembly.open_environment(
            pipeline, stack, observer=listener, engine=InlineEngine
        )
        settings = assembly.settings_of(pipeline, faults=faults)
        yield stack.enter_context(exclusive_access(settings, environment))
