"""`penstock quarantine`: list, show, retry and drop rejected records."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import print_json, print_result, say, tell
from penstock.cli.parameters import (
    SPEC,
    At,
    Codes,
    Json,
    QuarantinedTable,
    Spec,
    Yes,
    command_group,
)
from penstock.cli.record_text import key_and_headers, records_data, shown_bytes
from penstock.cli.specs import load_spec
from penstock.cli.waiting import waits_shown
from penstock.observe.formatting import number_of, one_line

if TYPE_CHECKING:
    from penstock.app.repair.quarantine import Group, Refused
    from penstock.landing.repair.selection import Selection


def list_groups(table: str | None = None, *, spec: Spec = SPEC, json: Json = False) -> int:
    """Count rejected records by table, reason and status.

    Example: penstock quarantine list

    Parameters
    ----------
    table
        One table, by its name in the spec; default: all.
    """
    from penstock.app.repair.quarantine import groups

    found = groups(load_spec(spec), table or "")
    if json:
        print_json({"groups": [asdict(each) for each in found]})
        return 0
    if not found:
        tell("no record was rejected")
    for name, group in groupby(found, lambda each: each.table):
        tell(name)
        for each in group:
            tell(_group_text(each))
    return 0


def show(
    table: QuarantinedTable,
    *,
    spec: Spec = SPEC,
    code: Codes = (),
    at: Annotated[
        At, Parameter(help="One record, as topic:partition:offset, whatever its status.")
    ] = None,
    count: Annotated[int, Parameter(name=["--count", "-n"])] = 5,
    json: Json = False,
) -> int:
    """Show open records: the bytes that came, and why each was rejected.

    Example: penstock quarantine show lake.bronze.orders --code P363 -n 3

    Parameters
    ----------
    count
        How many.
    """
    from penstock.app.repair.quarantine import records

    found = records(load_spec(spec), table, _choice(code, at), count)
    print_result(found, data=records_data, show=_show, json=json)
    return 0


def retry(
    table: QuarantinedTable,
    *,
    spec: Spec = SPEC,
    code: Codes = (),
    at: At = None,
    yes: Yes = None,
    json: Json = False,
) -> int:
    """Land rejected records that fit by now, each once, and mark them as retried.

    Refused while a run is alive. With neither --yes nor a terminal it only shows the change.

    Example: penstock quarantine retry lake.bronze.orders --code P361 --yes shop
    """
    from penstock.app.assembly.crash_points import from_environment
    from penstock.app.repair.confirmed_change import Done
    from penstock.app.repair.quarantine import retry as land
    from penstock.app.repair.quarantine import retry_forecast
    from penstock.cli.confirming import confirm_and_apply

    pipeline, choice = load_spec(spec), _choice(code, at)

    def apply() -> Done:
        done = land(pipeline, table, choice, faults=from_environment())
        landed = [f"{number_of(n, 'record')} landed in {name}" for name, n in done.landed.items()]
        refused = sorted(done.refused.items())
        left = [f"{number_of(n, 'record')} still rejected: {each}" for each, n in refused]
        return Done(asdict(done), (*landed, *left))

    with waits_shown(as_json=json) as observer:
        change = retry_forecast(pipeline, table, choice, observer)
    return confirm_and_apply(change, apply, yes, json=json)


def drop(
    table: QuarantinedTable,
    *,
    spec: Spec = SPEC,
    code: Codes = (),
    at: At = None,
    yes: Yes = None,
    json: Json = False,
) -> int:
    """Mark rejected records as dropped: they stay in the quarantine table, and no retry takes them.

    With neither --yes nor a terminal it only shows the change.

    Example: penstock quarantine drop lake.bronze.orders --code P302 --yes shop
    """
    from penstock.app.assembly.crash_points import from_environment
    from penstock.app.repair.confirmed_change import Done
    from penstock.app.repair.quarantine import drop as give_up
    from penstock.app.repair.quarantine import drop_forecast
    from penstock.cli.confirming import confirm_and_apply

    pipeline, choice = load_spec(spec), _choice(code, at)

    def apply() -> Done:
        done = give_up(pipeline, table, choice, faults=from_environment())
        return Done({"dropped": done}, (f"{number_of(done, 'record')} dropped",))

    return confirm_and_apply(drop_forecast(pipeline, table, choice), apply, yes, json=json)


app = command_group(
    "quarantine",
    "List rejected records, retry those that fit by now, or drop them.",
    {"list": list_groups, "show": show, "retry": retry, "drop": drop},
)


def _choice(codes: tuple[str, ...], at: str | None) -> Selection:
    from penstock.app.inspect.peek import spot
    from penstock.app.repair.quarantine import spot_choice

    where = spot(at) if at else None
    return spot_choice(codes, (where.topic, where.partition, where.offset) if where else None)


def _group_text(each: Group) -> str:
    when = f"{each.oldest:%Y-%m-%d %H:%M}"
    if f"{each.newest:%Y-%m-%d %H:%M}" != when:
        when += f" … {each.newest:%Y-%m-%d %H:%M}"
    what = f"{each.code} {each.stage}"
    return f"  {each.status:<10} {each.records:>12,}  {what:<16} {when} UTC"


def _show(found: Collection[Refused]) -> None:
    for each in found:
        when = f"{each.refused_at:%Y-%m-%d %H:%M} UTC"
        tell(f"{one_line(each.topic)}:{each.partition}:{each.offset}  {each.status}")
        tell(f"  rejected {each.code} {one_line(each.message)}  ({when})")
        for line in key_and_headers(each):
            tell(line)
        tell(f"  raw      {shown_bytes(each.value)}")
    if not found:
        say("no such record is open")
