"""`penstock pause` and `penstock resume`: another writer has a table to itself for a while.

Invariants: a pause that is reported as confirmed lets no commit of this pipeline begin; a run that
starts later reads the pauses before it commits (docs/design/0246). Nothing is written to tables.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from penstock.app.assembly import assembly
from penstock.app.assembly.process import this_owner
from penstock.app.assembly.table_names import tables_named
from penstock.commit.pauses import utc_text
from penstock.core.errors import UnavailableError
from penstock.core.store_errors import ALIVE
from penstock.ports.runtime import Clock
from penstock.ports.store import Pause, PendingStore
from penstock.spec.language.quantities import length_ms, no_length
from penstock.spec.model import Pipeline

FOR = "--for"
HOURS_MAX = 24
CONFIRM_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.2
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class TablePause:
    """A table that is paused. `confirmed`: no run makes an attempt to commit to it until then."""

    table: str
    until_ms: int
    until: str
    confirmed: bool


def duration_of(text: str) -> int:
    """Read how long a pause lasts, in milliseconds. Raises InvalidError (P176)."""
    found_ms = length_ms(FOR, text)
    if found_ms > HOURS_MAX * _HOUR_MS:
        raise no_length(FOR, text, f"a pause lasts {HOURS_MAX} hours at most")
    return found_ms


def pause(
    pipeline: Pipeline,
    table: str,
    lasting_ms: int,
    clock: Clock,
    wait: Callable[[], None] = lambda: None,
) -> TablePause:
    """Pause a table from now on, and return when nothing more is committed to it.

    `wait` is called before this waits for a run. Raises InvalidError (P185) for a table that the
    pipeline does not have, UnavailableError (P513) when a run does not confirm: the pause stays.
    """
    tables_named(pipeline, [table])
    with closing(assembly.open_store(pipeline)) as store:
        now_ms = clock.now_ms()
        begun = Pause(table, now_ms, now_ms + lasting_ms)
        store.pause(pipeline.name, begun)
        wait_until_ms = now_ms + min(int(CONFIRM_SECONDS_MAX * 1000), lasting_ms)
        if not is_confirmed(store, pipeline.name, begun, clock.now_ms()):
            wait()
        while not is_confirmed(store, pipeline.name, begun, clock.now_ms()):
            if clock.now_ms() >= wait_until_ms:
                raise _unconfirmed(store, pipeline.name, begun)
            clock.wait(_POLL_SECONDS)
    return _shown(begun, confirmed=True)


def resume(pipeline: Pipeline, table: str) -> bool:
    """End the pause of a table; return whether it had one. Raises UnavailableError."""
    with closing(assembly.open_store(pipeline)) as store:
        return store.resume(pipeline.name, table)


def pauses(pipeline: Pipeline, clock: Clock) -> list[TablePause]:
    """List the tables that are paused now. Raises UnavailableError."""
    with closing(assembly.open_store(pipeline)) as store:
        now_ms = clock.now_ms()
        return [
            _shown(each, confirmed=is_confirmed(store, pipeline.name, each, now_ms))
            for each in store.pauses(pipeline.name)
            if each.until_ms > now_ms
        ]


def is_confirmed(store: PendingStore, pipeline: str, begun: Pause, now_ms: int) -> bool:
    """Return whether no attempt on a table is under way, nor begins before its pause is over.

    So it is when nobody is alive, or the owner of now said so. One that claims later reads the
    pauses first.
    """
    try:
        store.require_free(pipeline, this_owner(), now_ms=now_ms)
    except UnavailableError as error:
        if error.code != ALIVE:
            raise
    else:
        return True
    held = store.holding(pipeline)  # before the pauses: who claims after this has read them
    seen_by = {
        each.seen_by
        for each in store.pauses(pipeline)
        if (each.table, each.begun_ms, each.until_ms)
        == (begun.table, begun.begun_ms, begun.until_ms)
    }
    return held is not None and held.claim.generation in seen_by


def _shown(begun: Pause, *, confirmed: bool) -> TablePause:
    return TablePause(begun.table, begun.until_ms, utc_text(begun.until_ms), confirmed)


def _unconfirmed(store: PendingStore, pipeline: str, begun: Pause) -> UnavailableError:
    held = store.holding(pipeline)
    owner = f"pid {held.owner.pid} on host {held.owner.host}" if held is not None else "another"
    return UnavailableError(
        f"{begun.table} is paused until {utc_text(begun.until_ms)}, but the run of {owner} has not "
        "confirmed it: a commit may be under way",
        code="P513",
        hint="stop that run, or see whether it is confirmed by now:  penstock pause",
    )
