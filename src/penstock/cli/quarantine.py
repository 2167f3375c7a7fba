"""`penstock quarantine`: list, show, retry and drop rejected records."""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.confirming import Done, confirm_and_apply
from penstock.cli.output import print_json, print_line, print_result, say
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
from penstock.cli.shards import by_shard
from penstock.cli.specs import load_spec
from penstock.observe.formatting import number_of, one_line

if TYPE_CHECKING:
    from penstock.app.repair.quarantine import Group, RejectedRecord, RetryPlan
    from penstock.landing.repair.selection import Selection
    from penstock.ports.runtime import Observer

TRIED_MAX = 20


@by_shard()
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
        print_json({"groups": found})
        return 0
    if not found:
        print_line("no record was rejected")
    for name, group in groupby(found, lambda each: each.table):
        print_line(name)
        for each in group:
            print_line(_group_text(each))
    return 0


@by_shard()
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


@by_shard(changes=True)
def retry(
    table: QuarantinedTable,
    *,
    spec: Spec = SPEC,
    code: Codes = (),
    at: At = None,
    insert: bool = False,
    yes: Yes = None,
    json: Json = False,
) -> int:
    """Land rejected records that fit by now, each once, and mark them as retried.

    In a keyed table a change lands only where it wins against the row of its key, which may be of a
    later one. Refused while a run is alive. With neither --yes nor a terminal it only shows the
    change.

    Example: penstock quarantine retry lake.bronze.orders --code P361 --yes shop

    Parameters
    ----------
    insert
        Keyed tables: also bring a row for a key that has none; it may have been deleted since.
    """
    from penstock.app.repair import quarantine as repair
    from penstock.commit.row_deltas import Fate
    from penstock.rows.keyed.touched import Retry

    pipeline, choice = load_spec(spec), _choice(code, at)
    mode = Retry.INSERTS if insert else Retry.REPLACES

    def plan(observer: Observer) -> RetryPlan:
        found = repair.retry_forecast(pipeline, table, choice, mode, observer)
        if not json:
            _say_tried(found)
        return found

    def apply() -> Done:
        done = repair.retry(pipeline, table, choice, mode)
        lines = [f"{number_of(n, 'record')} landed in {name}" for name, n in done.landed.items()]
        rejected = sorted(done.rejected.items())
        lines += [f"{number_of(n, 'record')} still rejected: {each}" for each, n in rejected]
        withheld = sorted((Fate[each.upper()], n) for each, n in done.withheld.items())
        lines += [repair.withheld_text(*each) for each in withheld]
        return done, lines

    return confirm_and_apply(plan, apply, yes, json=json)


@by_shard(changes=True)
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
    from penstock.app.repair import quarantine as repair

    pipeline, choice = load_spec(spec), _choice(code, at)

    def apply() -> Done:
        done = repair.drop(pipeline, table, choice)
        return {"dropped": done}, [f"{number_of(done, 'record')} dropped"]

    change = repair.drop_forecast(pipeline, table, choice)
    return confirm_and_apply(lambda _: change, apply, yes, json=json)


app = command_group(
    "quarantine",
    "List rejected records, retry those that fit by now, or drop them.",
    {"list": list_groups, "show": show, "retry": retry, "drop": drop},
)


def _choice(codes: tuple[str, ...], at: str | None) -> Selection:
    from penstock.app.inspect.peek import spot
    from penstock.app.repair.quarantine import spot_choice

    return spot_choice(codes, spot(at) if at else None)


def _group_text(each: Group) -> str:
    when = f"{each.oldest:%Y-%m-%d %H:%M}"
    if f"{each.newest:%Y-%m-%d %H:%M}" != when:
        when += f" … {each.newest:%Y-%m-%d %H:%M}"
    what = f"{each.code} {each.stage}"
    return f"  {each.status:<10} {each.records:>12,}  {what:<16} {when} UTC"


def _say_tried(found: RetryPlan) -> None:
    """Name the first records of a keyed table, each with what becomes of it."""
    for each in found.records[:TRIED_MAX]:
        say(f"  {one_line(each.topic)}:{each.partition}:{each.offset}  {each.code}  {each.fate}")
    if len(found.records) > TRIED_MAX:
        say(f"  … and {len(found.records) - TRIED_MAX:,} more:  --json")


def _show(found: Collection[RejectedRecord]) -> None:
    for each in found:
        when = f"{each.quarantined_at:%Y-%m-%d %H:%M} UTC"
        print_line(f"{one_line(each.topic)}:{each.partition}:{each.offset}  {each.status}")
        print_line(f"  rejected {each.code} {one_line(each.message)}  ({when})")
        for line in key_and_headers(each):
            print_line(line)
        print_line(f"  raw      {shown_bytes(each.value)}")
    if not found:
        say("no such record is open")
