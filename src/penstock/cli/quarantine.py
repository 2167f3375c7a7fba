"""`penstock quarantine`: refused records, listed, shown, tried again, given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.output import print_json, say, tell
from penstock.cli.specs import SPEC, Spec, load_spec
from penstock.cli.waiting import waits_told
from penstock.observe.figures import number_of, one_line

if TYPE_CHECKING:
    from penstock.app.quarantine import Group, Refused
    from penstock.landing.closing import Choice

app = App(
    name="quarantine",
    help="See refused records, land them after all, or give them up.",
    help_format="plaintext",
)


def list_groups(
    table: str | None = None,
    *,
    spec: Spec = SPEC,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Count refused records by table, reason and what became of them, as the tables tell.

    Example: penstock quarantine list

    Parameters
    ----------
    table
        One table, by its name in the spec; all of them when left out.
    spec
        The spec of the pipeline.
    json
        Print JSON.
    """
    from penstock.app.quarantine import groups

    found = groups(load_spec(spec), table or "")
    if json:
        print_json({"groups": [asdict(each) for each in found]})
        return 0
    if not found:
        tell("nothing was refused")
    named = ""
    for each in found:
        if each.table != named:
            tell(each.table)
            named = each.table
        tell(_group_text(each))
    return 0


def show(
    table: str,
    *,
    spec: Spec = SPEC,
    code: tuple[str, ...] = (),
    at: str | None = None,
    count: Annotated[int, Parameter(name=["--count", "-n"])] = 5,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Show open records with the bytes that came and the reason each was refused for.

    Example: penstock quarantine show lake.bronze.orders --code P363 -n 3

    Parameters
    ----------
    table
        The table they were meant for, or the route, by its name in the spec.
    spec
        The spec of the pipeline.
    code
        Only those refused with a code; may be given again.
    at
        One record, as topic:partition:offset, whatever became of it.
    count
        How many.
    json
        Print JSON.
    """
    from penstock.app.quarantine import records

    found = records(load_spec(spec), table, _choice(code, at), count)
    if json:
        print_json([_data(each) for each in found])
        return 0
    for each in found:
        _tell(each)
    if not found:
        say("no such record is open")
    return 0


def retry(
    table: str,
    *,
    spec: Spec = SPEC,
    code: tuple[str, ...] = (),
    at: str | None = None,
    yes: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Land refused records that fit by now, each once, and close them; not beside a run.

    Shows what it would do; it is done when the pipeline's name is typed or given with --yes.

    Example: penstock quarantine retry lake.bronze.orders --code P361 --yes shop

    Parameters
    ----------
    table
        The table they were meant for, or the route, by its name in the spec.
    spec
        The spec of the pipeline.
    code
        Only those refused with a code; may be given again.
    at
        One record, as topic:partition:offset.
    yes
        The pipeline's name, for consent without a terminal.
    json
        Print JSON.
    """
    from penstock.app.changing import Done
    from penstock.app.faults import from_environment
    from penstock.app.quarantine import retry as land
    from penstock.app.quarantine import retry_forecast
    from penstock.cli.confirming import change_by_hand

    pipeline, choice = load_spec(spec), _choice(code, at)

    def act() -> Done:
        done = land(pipeline, table, choice, faults=from_environment())
        landed = [f"{number_of(n, 'record')} landed in {name}" for name, n in done.landed.items()]
        refused = sorted(done.refused.items())
        left = [f"{number_of(n, 'record')} still refused: {each}" for each, n in refused]
        return Done(asdict(done), (*landed, *left))

    with waits_told(as_json=json) as observer:
        change = retry_forecast(pipeline, table, choice, observer)
    return change_by_hand(change, act, yes, json=json)


def drop(
    table: str,
    *,
    spec: Spec = SPEC,
    code: tuple[str, ...] = (),
    at: str | None = None,
    yes: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Give refused records up: they stay in the quarantine as dropped, and no retry takes them.

    Shows what it would do; it is done when the pipeline's name is typed or given with --yes.

    Example: penstock quarantine drop lake.bronze.orders --code P302 --yes shop

    Parameters
    ----------
    table
        The table they were meant for, or the route, by its name in the spec.
    spec
        The spec of the pipeline.
    code
        Only those refused with a code; may be given again.
    at
        One record, as topic:partition:offset.
    yes
        The pipeline's name, for consent without a terminal.
    json
        Print JSON.
    """
    from penstock.app.changing import Done
    from penstock.app.faults import from_environment
    from penstock.app.quarantine import drop as give_up
    from penstock.app.quarantine import drop_forecast
    from penstock.cli.confirming import change_by_hand

    pipeline, choice = load_spec(spec), _choice(code, at)

    def act() -> Done:
        done = give_up(pipeline, table, choice, faults=from_environment())
        return Done({"dropped": done}, (f"{number_of(done, 'record')} dropped",))

    return change_by_hand(drop_forecast(pipeline, table, choice), act, yes, json=json)


_COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_groups,
    "show": show,
    "retry": retry,
    "drop": drop,
}
for name, command in _COMMANDS.items():
    # Named here: help would else call a command of a command after the running program.
    named = App(name=name)
    named.default(command)
    app.command(named)


def _choice(codes: tuple[str, ...], at: str | None) -> Choice:
    from penstock.app.peek import spot
    from penstock.app.quarantine import spot_choice

    where = spot(at) if at else None
    return spot_choice(codes, (where.topic, where.partition, where.offset) if where else None)


def _group_text(each: Group) -> str:
    when = f"{each.oldest:%Y-%m-%d %H:%M}"
    if f"{each.newest:%Y-%m-%d %H:%M}" != when:
        when += f" … {each.newest:%Y-%m-%d %H:%M}"
    what = f"{each.code} {each.stage}"
    return f"  {each.status:<10} {each.records:>12,}  {what:<16} {when} UTC"


def _data(each: Refused) -> dict[str, Any]:
    from penstock.cli.peek import plain_data, text_of

    data: dict[str, Any] = plain_data(asdict(each))
    data["text"] = text_of(each.value)
    return data


def _tell(each: Refused) -> None:
    from penstock.cli.peek import shown_bytes

    tell(f"{one_line(each.topic)}:{each.partition}:{each.offset}  {each.status}")
    tell(f"  refused  {each.code} {one_line(each.message)}  ({each.refused_at:%Y-%m-%d %H:%M} UTC)")
    if each.key is not None:
        tell(f"  key      {shown_bytes(each.key)}")
    for name, value in each.headers:
        tell(f"  header   {one_line(name)}: {shown_bytes(value)}")
    tell(f"  raw      {shown_bytes(each.value)}")
