"""`penstock plan`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from shlex import join
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from penstock.cli.hints import pasteable
from penstock.cli.output import error_data, print_json, result_console
from penstock.cli.parameters import SPEC, Accept, Json, Spec, Takeover
from penstock.cli.record_text import shown_bytes
from penstock.cli.specs import load_spec
from penstock.cli.waiting import waits_shown
from penstock.observe.formatting import age_text, count_text, number_of, one_line, size_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.app.inspect.plan.forecast import Plan, Sampled, TablePlan
    from penstock.core.errors import PenstockError

COLUMNS_SHOWN_MAX = 40
COLUMN_NAME_CELLS = 30
PARTITIONS_SHOWN_MAX = 12

FATES = {
    "evolve": "columns to add",
    "drop_value": "fields without a column, whose values are dropped",
    "quarantine": "fields without a column, whose records go to quarantine",
}
OUTCOMES = {
    0: "nothing to do: every table holds all there is",
    10: "a run would do this:  {run}",
    11: "a step is destructive: penstock run refuses it without --accept",
}
MISFITS_SHOWN_MAX = 8
EXCERPT_CHARACTERS_MAX = 72


def plan(
    spec: Spec = SPEC,
    *,
    exit_code: bool = False,
    takeover: Takeover = False,
    accept: Accept = (),
    json: Json = False,
) -> int:
    """Show what a run would do, and why: tables, columns, offsets, backlog. Writes nothing.

    Columns and rejects come from a sample of the backlog, on which the workers' own code runs: the
    oldest and the newest records of each partition, and some between. Exits with the code that
    `penstock run --until-caught-up` would end with now.

    Example: penstock plan shop.yaml --accept gap

    Parameters
    ----------
    exit_code
        Exit with 0 when there is nothing to do, 10 for changes, 11 for destructive ones; whatever
        else would stop a run keeps the run's exit code.
    """
    from penstock.app.inspect.plan.plan import plan as look

    pipeline = load_spec(spec)
    with waits_shown(as_json=json) as observer:
        found = look(pipeline, accept=frozenset(accept), takeover=takeover, observer=observer)
    code = (found.problem_code or found.change) if exit_code else found.exit_code
    if json:
        print_json(_data(found))
        return code
    console = result_console()
    for line in plan_lines(found, _run(accept, takeover=takeover)):
        console.print(line, soft_wrap=isinstance(line, Text))  # a command is pasted whole
    return code


def _data(found: Plan) -> dict[str, Any]:
    tables = []
    for each in found.tables:
        data = asdict(each)
        data["problem"] = error_data(each.problem) if each.problem else None
        data["destructive"] = [error_data(error) for error in each.destructive]
        data["records"] = each.records
        data["lands"] = each.parked is None
        for told, beginning in zip(data["beginnings"], each.beginnings, strict=True):
            told["records"] = beginning.records
        for told, misfits in zip(data["sampled"]["misfits"], each.sampled.misfits, strict=True):
            told["value"] = _excerpt(misfits.value)
        tables.append(data)
    return {
        "pipeline": found.pipeline,
        "change": found.change,
        "run": {
            "exit_code": found.exit_code,
            "reason": error_data(found.reason) if found.reason else None,
        },
        "creates_quarantine": found.creates_quarantine or None,
        "running": found.owner or None,
        "former_rules": found.former_rules,
        "unrouted": found.unrouted,
        "seconds": found.seconds,
        "tables": tables,
    }


def _run(accept: tuple[str, ...], *, takeover: bool) -> str:
    """Return the command that starts the run that was planned."""
    consents = [word for each in accept for word in ("--accept", each)]
    return pasteable(join(["penstock", "run", *(["--takeover"] if takeover else []), *consents]))


def plan_lines(found: Plan, run: str = "penstock run") -> Iterator[RenderableType]:
    """Yield a plan line by line, for people; `run` is the command that was planned."""
    yield Text.assemble((found.pipeline, "bold"), f"  {_outcome(found, run)}")
    for error in found.stops:
        yield _below(f"{error.code}  {one_line(error.message)}", "red", cells=2)
        yield from _way_out(error, cells=2)
    if found.owner:
        yield Text(f"  it runs now, on {one_line(found.owner)}", "yellow")
    if found.creates_quarantine:
        yield Text(f"  + create the quarantine table {found.creates_quarantine}", "green")
    if found.former_rules:
        names = ", ".join(found.former_rules)
        yield Text(f"  first bring level, by the rules they were fed with: {names}", "yellow")
    for topic in found.unrouted:
        yield Text(f"  no table takes topic {one_line(topic)}", "yellow")
    for table in found.tables:
        yield Text()
        yield from _table_lines(table)
    if found.seconds is not None:
        yield Text(f"\nat the pace of the last run: about {age_text(int(found.seconds * 1000))}")


def _outcome(found: Plan, run: str) -> str:
    """Return in a line what a run would do, or the exit code it would end with."""
    reason = found.reason
    if reason is None or found.problem_code != found.exit_code:
        return OUTCOMES[found.change].format(run=one_line(run))
    return f"a run would end with {reason.exit_code}: {reason.code}"


def _table_lines(table: TablePlan) -> Iterator[RenderableType]:
    mark, style, act = _act(table)
    yield Text.assemble((f"{mark} {table.table}", style), f"  {act}")
    for error in table.destructive:
        yield _below(f"destructive  {error.code}  {_said(table, error)}", "bold red")
        yield from _way_out(error)
    if table.problem is not None:
        yield _below(f"{table.problem.code}  {_said(table, table.problem)}", "red")
        yield from _way_out(table.problem)
    if table.pending:
        yield Text(f"    settle {number_of(table.pending, 'commit')} of an earlier run")
    shown = [(one_line(name), kind) for name, kind in table.columns[:COLUMNS_SHOWN_MAX]]
    room = min(max((len(name) for name, _ in shown), default=0), COLUMN_NAME_CELLS)
    for name, kind in shown:
        yield _below(f"+ {name:<{room}}  {kind}", "green")
    if len(table.columns) > COLUMNS_SHOWN_MAX:
        yield Text(f"    and {number_of(len(table.columns) - COLUMNS_SHOWN_MAX, 'more column')}")
    if table.missing:
        names = ", ".join(one_line(f"{n} {kind}") for n, kind in table.missing[:COLUMNS_SHOWN_MAX])
        yield _below(f"{FATES.get(table.fate, table.fate)}: {names}", "yellow")
    for name, near in table.unmatched:
        meant = f"; did you mean {one_line(near)}?" if near else ""
        text = f"the hint {one_line(name)} matches no field of the sampled records{meant}"
        yield _below(text, "yellow")
    yield from _backlog_lines(table)


def _said(table: TablePlan, error: PenstockError) -> str:
    """Return an error's message without the name of the table that it is listed under."""
    return one_line(error.message.removeprefix(f"{table.table}: "))


def _below(text: str, style: str = "", *, cells: int = 4) -> RenderableType:
    """Indent a text below a name, with its wrapped lines."""
    return Padding(Text(text, style), (0, 0, 0, cells), expand=False)


def _way_out(error: PenstockError, *, cells: int = 4) -> Iterator[RenderableType]:
    """Yield an error's hint; a command at its end gets a line of its own."""
    says, gap, command = one_line(pasteable(error.hint)).rpartition("  penstock ")
    if not gap:
        says, command = command, ""
    yield _below(f"  → {says}", "red", cells=cells)
    if command:
        yield Text(f"{' ' * cells}    penstock {command}", "red")


def _act(table: TablePlan) -> tuple[str, str, str]:
    if table.destructive or table.problem:
        return "!", "bold red", "does not go on"
    if table.create:
        return "+", "bold green", "to create, with the columns that records show"
    if table.adds_columns:
        return "~", "bold yellow", "to land in, with new columns"
    if table.records or table.pending:
        return "~", "bold", "to land in"
    return "=", "bold", "nothing to do"


def _backlog_lines(table: TablePlan) -> Iterator[RenderableType]:
    for each in table.beginnings[:PARTITIONS_SHOWN_MAX]:
        yield Text(
            f"    {one_line(each.topic)}[{each.partition}] from {each.start:,} to {each.stop:,}"
            f"  ({each.why})",
            "dim" if not each.records else "",
        )
    if len(table.beginnings) > PARTITIONS_SHOWN_MAX:
        more = len(table.beginnings) - PARTITIONS_SHOWN_MAX
        yield Text(f"    and {number_of(more, 'more partition')}")
    if table.records:
        size = "" if table.size_bytes is None else f", about {size_text(table.size_bytes)} to read"
        yield Text(f"    backlog: {number_of(table.records, 'record')}{size}")
    yield from _sampled_lines(table.sampled)


def _sampled_lines(sampled: Sampled) -> Iterator[RenderableType]:
    """Yield how many sampled records fit, and why others do not, with an example."""
    if not sampled.quarantined and not sampled.filtered:
        return
    left = [f"{count_text(count)} {why}" for why, count in sampled.filtered.items()]
    out = f"; left out: {', '.join(left)}" if left else ""
    fate = "quarantined, if the run came to them" if sampled.trips else "quarantined"
    refused = f"; the others would be {fate}" if sampled.quarantined else ""
    said = f"of {number_of(sampled.records, 'sampled record')} {count_text(sampled.landed)} fit"
    yield _below(f"{said}{refused}{out}", "yellow")
    for each in sampled.misfits[:MISFITS_SHOWN_MAX]:
        place = f"{one_line(each.topic)}:{each.partition}:{each.offset}"
        yield _below(f"{each.code}  {one_line(each.message)}  ({count_text(each.count)})", "yellow")
        yield _below(f"{place}  {_excerpt(each.value)}", "dim", cells=10)
    if len(sampled.misfits) > MISFITS_SHOWN_MAX:
        more = number_of(len(sampled.misfits) - MISFITS_SHOWN_MAX, "more reason")
        yield Text(f"    and {more}", "yellow")


def _excerpt(value: bytes | None) -> str:
    """Show the beginning of a value as `penstock quarantine show` shows it."""
    text = shown_bytes(value)
    cut = text[: EXCERPT_CHARACTERS_MAX - 1]
    return text if len(text) <= EXCERPT_CHARACTERS_MAX else f"{cut}…"
