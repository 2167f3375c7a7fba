"""What commands that change a pipeline by hand share: a plan to show, consent, and a claim.

Each reads without writing, shows the `Change` and has the pipeline's name given; then it holds the
pipeline as a run does, reads again, and acts.

Invariants:
- nothing is written before consent;
- what is done was decided under the hold, on what is there then; the plan shown is a forecast;
- while a run is alive, the change is refused (P510).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from penstock.app.assembly import assembly
from penstock.app.assembly.crash_points import from_environment, observer_for
from penstock.core.errors import InvalidError
from penstock.engines.inline import InlineEngine
from penstock.landing.repair.access import ExclusiveAccess, exclusive_access
from penstock.observe.fanout import UNHEARD, Observers
from penstock.ports.runtime import Observer
from penstock.spec.model import Pipeline


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a change would do, as a sentence; `destructive` ones cannot be taken back.

    `changes` is false where it only reports what stays as it is.
    """

    text: str
    destructive: bool = False
    changes: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """What a command would do to a pipeline. Without steps there is nothing to do."""

    pipeline: str
    steps: tuple[Step, ...]


def require_consent(change: Change, given: str) -> None:
    """Check the name that was typed to confirm. Raises InvalidError (P171) for another one."""
    if given != change.pipeline:
        raise InvalidError(
            f"{given[:80]!r} is not the name of this pipeline, so nothing was changed",
            code="P171",
            hint=f"to make the change:  --yes {change.pipeline}",
        )


@contextmanager
def exclusive_change(pipeline: Pipeline, observer: Observer = UNHEARD) -> Iterator[ExclusiveAccess]:
    """Hold a pipeline while it is changed. Its records are worked on in this process, at first.

    Raises UnavailableError (P510) while another owner is alive, or when brokers, catalog or store
    do not answer.
    """
    faults = from_environment()
    observers = Observers(observer, observer_for(faults))
    with ExitStack() as stack:
        environment = assembly.open_environment(
            pipeline, stack, observer=observers, engine=InlineEngine
        )
        settings = assembly.settings_of(pipeline, faults=faults)
        yield stack.enter_context(exclusive_access(settings, environment))
