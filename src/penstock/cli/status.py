"""`penstock status`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.cli import publications
from penstock.cli.output import fields_of, pasteable, print_json, print_line, result_console
from penstock.cli.parameters import SPEC, Json, Spec
from penstock.cli.shards import by_shard, one_at_a_time
from penstock.cli.specs import load_shards, parts_of
from penstock.cli.waiting import waits_shown
from penstock.core.errors import UnavailableError, gravest
from penstock.core.freshness import Freshness, Promise, exit_code_of
from penstock.core.maintenance import worst_first
from penstock.observe.formatting import age_text, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from penstock.app.inspect.status import Status
    from penstock.observe.snapshot import Snapshot
    from penstock.ports.runtime import Clock
    from penstock.spec.model import Pipeline

WATCH_EVERY_SECONDS = 2.0
JSON_HELP = 'Print JSON; with --watch one object a line, {"error": …} after a failed read.'


@by_shard(at_once=True)
def status(
    spec: Spec = SPEC,
    *,
    watch: bool = False,
    exit_code: bool = False,
    json: Annotated[Json, Parameter(help=JSON_HELP)] = False,
) -> int:
    """Show the state of each table: freshness, lag, last commit, pending, why it is parked.

    Progress is read from the tables themselves; totals and rates are those of the last run. Writes
    nothing. A table that cannot be read is shown with its error, and the command exits with the
    code of that error.

    Example: penstock status shop.yaml --json

    Parameters
    ----------
    watch
        Refresh every two seconds until Ctrl-C, also while brokers or the store are unavailable.
    exit_code
        Exit with 0 while each table is as fresh as its  freshness  promises, 10 when one is late,
        11 when one is older than twice that; a table that cannot be read keeps its error's code.
    """
    from penstock.app.assembly.process import SystemClock
    from penstock.app.inspect.status import status as read

    parts = parts_of(spec)
    published = publications.standing(spec) if parts.publishes else publications.NOTHING
    if not parts.lands:
        return published.show(json=json)
    shards, clock = load_shards(spec), SystemClock()
    if watch and len(shards) > 1:
        raise one_at_a_time()
    if watch:
        with suppress(KeyboardInterrupt):
            keep_showing(shards[0], clock, as_json=json)
        return 0
    with waits_shown(as_json=json) as observer:
        found = [read(each, clock, observer) for each in shards]
    promises = _promises(shards, found, clock)
    if json:
        data = _data(found[0]) if len(shards) == 1 else _data_of_all(shards, found)
        print_json({**data, "freshness": promises, **published.data})
    else:
        for each in found:
            result_console().print(_drawn(each))
        if len(shards) > 1:
            _say_of_all(shards, found)
        for name, promise in promises.items():
            result_console().print(promise_line(name, promise))
        published.show_lines()
    kept = exit_code_of(promises.values()) if exit_code else 0
    return gravest((*(each.exit_code for each in found), published.exit_code)) or kept


def _promises(
    shards: Sequence[Pipeline], found: Sequence[Status], clock: Clock
) -> dict[str, Promise]:
    """Judge each table, and of several shards each in its own."""
    from penstock.app.inspect.freshness import promises_of

    return {
        name if len(shards) == 1 else f"{name} ({shard.name})": promise
        for shard, each in zip(shards, found, strict=True)
        for name, promise in promises_of(shard, each.snapshot.tables, clock.now_ms()).items()
    }


def _data_of_all(shards: Sequence[Pipeline], found: Sequence[Status]) -> dict[str, Any]:
    from penstock.app.shards import unowned, valid_through

    return {
        "exit_code": gravest(each.exit_code for each in found),
        "shards": {shard.name: _data(each) for shard, each in zip(shards, found, strict=True)},
        "valid_through_ms": valid_through(found),
        "unowned": unowned(shards, found),
    }


def _say_of_all(shards: Sequence[Pipeline], found: Sequence[Status]) -> None:
    """Print what holds of a table as a whole, and which shards nobody lands."""
    from penstock.app.shards import unowned, valid_through

    for name, through_ms in valid_through(found).items():
        when = "nothing yet" if through_ms is None else _date(through_ms)
        print_line(f"{name}: valid through {when}, over all {len(shards)} shards")
    for name in unowned(shards, found):
        print_line(pasteable(f"{name}: no process lands it"))


def _date(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def keep_showing(pipeline: Pipeline, clock: Clock, *, as_json: bool) -> None:
    """Show a pipeline's status again and again until interrupted; retry what is unavailable."""
    from penstock.app.inspect.status import status as read

    if as_json:
        while True:
            try:
                print_json(_data(read(pipeline, clock)))
            except UnavailableError as error:
                print_json({"error": error})
            clock.wait(WATCH_EVERY_SECONDS)
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    seen: RenderableType = Text("reading")
    with Live(seen, auto_refresh=False, screen=False) as live:
        while True:
            try:
                seen = _drawn(read(pipeline, clock))
                live.update(seen, refresh=True)
            except UnavailableError as error:
                failed = Text(f"{error.code}: {error.message}; trying again", style="red")
                live.update(Group(seen, failed), refresh=True)
            clock.wait(WATCH_EVERY_SECONDS)


def _data(found: Status) -> dict[str, Any]:
    return {
        "exit_code": found.exit_code,
        "running": found.running,
        "why": found.why,
        "stalled": found.stall,
        "stuck_transactions": found.stuck,
        **fields_of(_hinting(found.snapshot)),
    }


def _drawn(found: Status) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from penstock.observe.render import StatusText

    snapshot = _hinting(found.snapshot)
    shown = StatusText(snapshot, found.now_ms, stall=found.stall, why=found.why)
    hints = []
    if worst_first(snapshot.health) or any(each.is_unseen for each in snapshot.tables.values()):
        hints.append("to see which files, and to make fewer of them:  penstock maintain")
    if found.stuck:
        hints.append("to end one:  penstock transactions --abort NAME")
    lines = [f"{each.state} transaction {each.name} holds up {each.held}" for each in found.stuck]
    return Group(
        shown,
        *(Text(one_line(each), "bold red") for each in lines),
        *(Text(pasteable(each)) for each in hints),
    )


def promise_line(table: str, promise: Promise) -> Text:
    """Say how a table keeps its promise."""
    from rich.text import Text

    age = "nothing has landed"
    if promise.age_ms is not None:
        age = f"valid through {age_text(promise.age_ms)} ago"
    styles = {Freshness.LATE: "yellow", Freshness.BROKEN: "bold red"}
    text = f"{one_line(table)} is {promise.state}: {age}, {age_text(promise.promised_ms)} promised"
    return Text(text, styles.get(promise.state, ""))


def _hinting(snapshot: Snapshot) -> Snapshot:
    tables = {
        name: replace(table, parked=replace(table.parked, hint=pasteable(table.parked.hint)))
        for name, table in snapshot.tables.items()
        if table.parked is not None
    }
    return replace(snapshot, tables={**snapshot.tables, **tables})
