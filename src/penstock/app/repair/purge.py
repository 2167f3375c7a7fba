"""`penstock purge`: take away rows of keys that were deleted long ago, beside a run or without one.

Invariants:
- nothing is written before consent, and what is purged is looked for again then;
- Kafka is not asked, and the pipeline is not claimed: what was purged is a commit that yields to
  every other (docs/design/0267).
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass

from penstock.app.assembly import assembly, worker
from penstock.app.assembly.crash_points import from_environment, observer_for
from penstock.app.assembly.process import jitter, token
from penstock.app.repair.confirmed_change import Change, Step
from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import last_claim_of, position_at
from penstock.commit.purge import (
    PurgedRows,
    PurgeSearch,
    no_changes,
    purge_commit,
    purge_rows,
    sound_ledger,
)
from penstock.commit.rewriting import Rewriting, require_within
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError
from penstock.core.events import WaitBegan
from penstock.observe.fanout import UNHEARD
from penstock.observe.formatting import number_of
from penstock.ports.runtime import Clock, Observer
from penstock.ports.tables import Table
from penstock.spec.language.quantities import duration_ms
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import no_table

AGE_HOURS_MIN = 1
_HOUR_MS = 3_600_000
_SEARCH = "the rows of deleted keys to be found"


@dataclass(frozen=True, slots=True)
class PurgePlan(Change):
    """What a purge would take away now."""

    table: str
    found: PurgedRows


def age_of(text: str) -> int:
    """Read how long ago keys were deleted, in milliseconds. Raises InvalidError (P286)."""
    try:
        age_ms = duration_ms(text)
    except ValueError as error:
        raise _age(text, str(error)) from error
    if age_ms < AGE_HOURS_MIN * _HOUR_MS:
        raise _age(text, "changes that come late need the rows: an hour is the least")
    return age_ms


def plan_purge(
    pipeline: Pipeline, table: str, age_ms: int, clock: Clock, observer: Observer = UNHEARD
) -> PurgePlan:
    """Return what a purge would do. Writes nothing.

    Raises as `purge`, but for P288 and P445.
    """
    search = _search(pipeline, table, clock.now_ms() - age_ms)
    with ExitStack() as stack:
        chain, opened = _opened(pipeline, table, stack, observer, read_only=True)
        state = opened.state(chain)
        landed = sound_ledger(chain, state)
        observer(WaitBegan(_SEARCH))
        purgeable = search.find(opened, state)
        if rewritten := assembly.settings_of(pipeline).rewritten.get(table):
            commit = purge_commit(
                search, position_at(opened, chain, state), landed, attempt=token()
            )
            taken = purgeable.row_deletes, purgeable.searched
            require_within(commit, *taken, rewritten.bytes_max)
    found, steps = purgeable.rows, []
    if found.rows:
        rows, files = number_of(found.rows, "row"), number_of(found.files, "file")
        text = f"{table}: {rows} in {files} are removed, of keys deleted {between(found)}"
        steps.append(Step(text, destructive=True))
    return PurgePlan(pipeline.name, tuple(steps), table, found)


def purge(pipeline: Pipeline, table: str, age_ms: int, clock: Clock) -> PurgedRows:
    """Take the rows away; return which.

    Raises InvalidError (P185 no such table, P287 its deletes leave no rows, P461 nothing has
    landed), UnavailableError (P288, P445), DecisionNeededError (P265, P455), and what reading and
    committing raise.
    """
    search = _search(pipeline, table, clock.now_ms() - age_ms)
    with ExitStack() as stack:
        store = stack.enter_context(closing(assembly.open_store(pipeline)))
        observer = observer_for(from_environment())
        chain, opened = _opened(pipeline, table, stack, observer)
        context = CommitContext(
            last_claim_of(None),
            observer,
            clock,
            jitter,
            pipeline.commit.retain,
            rewriting={
                name: Rewriting(worker.writer(each.connector), each.bytes_max)
                for name, each in assembly.settings_of(pipeline).rewritten.items()
            },
        )
        return purge_rows(
            search,
            chain,
            opened,
            context,
            attempt=token(),
            pauses=lambda: store.pauses(pipeline.name),
        )


def between(found: PurgedRows) -> str:
    """Say when the keys of rows were deleted."""
    oldest, newest = (
        "" if each is None else f"{each:%Y-%m-%d %H:%M:%S} UTC"
        for each in (found.oldest, found.newest)
    )
    return f"at {oldest}" if oldest == newest else f"from {oldest} to {newest}"


def _search(pipeline: Pipeline, table: str, through_ms: int) -> PurgeSearch:
    rules = [rule for rule in pipeline.tables if rule.table == table]
    if not rules:
        raise no_table(table, {rule.table for rule in pipeline.tables})
    columns = rules[0].soft_columns
    if columns is None:
        raise InvalidError(
            f"{table}: the rule has no  deletes: soft, so no row of it says that its key was "
            "deleted",
            code="P287",
            hint="name a table whose deletes are soft:  penstock explain P287",
        )
    return PurgeSearch(*columns, through_ms)


def _opened(
    pipeline: Pipeline,
    table: str,
    stack: ExitStack,
    observer: Observer,
    *,
    read_only: bool = False,
) -> tuple[Chain, Table]:
    place = assembly.place_of(pipeline, table)
    catalog = assembly.open_catalog(pipeline, place.catalog, observer, read_only=read_only)
    opened = stack.enter_context(closing(catalog)).load(place.name)
    if opened is None:
        raise no_changes(table)
    return Chain(pipeline.name, table), opened


def _age(text: str, reason: str) -> InvalidError:
    return InvalidError(
        f"--older-than {text[:40]}: {reason}",
        code="P286",
        hint="write it as 30d, 12h or 1h, longer than any change may come late",
    )
