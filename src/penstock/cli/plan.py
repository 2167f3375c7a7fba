"""`penstock plan`."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import join
from typing import TYPE_CHECKING, Any, get_args

from rich.padding import Padding
from rich.text import Text

from penstock.cli import publications
from penstock.cli.output import fields_of, pasteable, print_json, result_console
from penstock.cli.parameters import SPEC, AcceptAny, Json, OfPublishing, Spec, Takeover
from penstock.cli.record_text import shown_bytes
from penstock.cli.shards import by_shard
from penstock.cli.specs import load_spec, parts_of
from penstock.cli.waiting import waits_shown
from penstock.core.errors import gravest
from penstock.core.hold import HELD, HoldAct
from penstock.observe.formatting import age_text, count_text, number_of, one_line, size_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.app.inspect.plan.forecast import Adoption, Plan, Sampled, TablePlan
    from penstock.core.errors import PenstockError

OF_PUBLISHING = frozenset(get_args(OfPublishing))
COLUMNS_SHOWN_MAX = 40
COLUMN_NAME_CELLS = 30
PARTITIONS_SHOWN_MAX = 12

WITHOUT_COLUMN = {
    "evolve": "columns to add",
    "freeze": "fields without a column: the table is parked",
    "drop_value": "fields without a column: their values are dropped",
    "rescue": "fields without a column: their values are kept in _rescued",
    "quarantine": "fields without a column: their records go to quarantine",
}
OUTCOMES = {
    0: "nothing to do: every table holds all there is",
    10: "a run would do this:  {run}",
    11: "a step is destructive: penstock run refuses it without --accept",
}
WHILE_SICK = {
    HoldAct.WIDEN: "epochs would widen",
    HoldAct.STOP: f"it would be parked, {HELD}",
    HoldAct.NOTHING: "nothing is done about it",
}
NO_TOPIC = "nothing to land: no topic matches"
REJECTS_SHOWN_MAX = 8
EXCERPT_CHARACTERS_MAX = 72


@by_shard()
def plan(
    spec: Spec = SPEC,
    *,
    exit_code: bool = False,
    takeover: Takeover = False,
    accept: AcceptAny = (),
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
    from penstock.app.inspect.plan.plan import plan as make_plan
    from penstock.landing.settings import Consent

    parts, published = parts_of(spec), publications.NOTHING
    if parts.publishes:
        own = [each for each in accept if each in OF_PUBLISHING]
        published = publications.planned(spec, accept=own, exit_code=exit_code)
    if not parts.lands:
        return published.show(json=json)
    pipeline = load_spec(spec)
    consents: list[Consent] = [each for each in get_args(Consent) if each in accept]
    with waits_shown(as_json=json) as observer:
        found = make_plan(
            pipeline, accept=frozenset(consents), takeover=takeover, observer=observer
        )
    code = (found.problem_code or found.change) if exit_code else found.exit_code
    code = _graver(code, published.exit_code)
    if json:
        print_json({**_data(found), **published.data})
        return code
    words = [word for each in consents for word in ("--accept", each)]
    run = pasteable(join(["penstock", "run", *(["--takeover"] if takeover else []), *words]))
    console = result_console()
    for line in plan_lines(found, run):
        console.print(line, soft_wrap=isinstance(line, Text))  # a command is pasted whole
    published.show_lines()
    return code


def _graver(code: int, other: int) -> int:
    """Return the exit code of two plans: a problem's before a change's."""
    problems = [each for each in (code, other) if each not in OUTCOMES]
    return gravest(problems) or max(code, other)


def _data(found: Plan) -> dict[str, Any]:
    return {
        "pipeline": found.pipeline,
        "change": found.change,
        "run": {"exit_code": found.exit_code, "reason": found.reason},
        "creates_quarantine": found.creates_quarantine or None,
        "running": found.owner or None,
        "level_first": found.level_first,
        "unrouted": found.unrouted,
        "unmatched_patterns": found.unmatched_patterns,
        "sick": {**found.sick},
        "seconds": found.seconds,
        "tables": [_table_data(each) for each in found.tables],
    }


def _table_data(table: TablePlan) -> dict[str, Any]:
    rejects = [{**fields_of(each), "value": _excerpt(each.value)} for each in table.sampled.rejects]
    return {
        **fields_of(table),
        "ranges": [{**fields_of(each), "records": each.records} for each in table.ranges],
        "sampled": {**fields_of(table.sampled), "rejects": rejects},
        "records": table.records,
        "lands": table.parked is None,
    }


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
    if found.level_first:
        names = ", ".join(found.level_first)
        yield Text(f"  first bring level, under the previous spec: {names}", "yellow")
    for pattern in found.unmatched_patterns:
        yield Text(f"  no topic matches the pattern {one_line(pattern)}", "yellow")
    for topic in found.unrouted:
        yield Text(f"  no table takes topic {one_line(topic)}", "yellow")
    for name, files in found.sick.items():
        sick = one_line(f"{name} has {number_of(files, 'file')} too many: {WHILE_SICK[found.hold]}")
        yield Text(f"  {sick}; to make fewer:  {pasteable(f'penstock maintain {name}')}", "yellow")
    for table in found.tables:
        yield Text()
        yield from _table_lines(table)
    if found.seconds is not None:
        yield Text(f"\nat the pace of the last run: about {age_text(int(found.seconds * 1000))}")


def _outcome(found: Plan, run: str) -> str:
    reason = found.reason
    if not (found.tables or found.unrouted) and found.unmatched_patterns and reason is None:
        return NO_TOPIC
    if reason is None or found.problem_code != found.exit_code:
        return OUTCOMES[found.change].format(run=one_line(run))
    return f"a run would end with {reason.exit_code}: {reason.code}"


def _table_lines(table: TablePlan) -> Iterator[RenderableType]:
    mark, style, act = _act(table)
    yield Text.assemble((f"{mark} {table.table}", style), f"  {act}")
    if table.keys:
        keys, sequence = (
            ", ".join(map(one_line, each)) for each in (table.keys, table.sequence_by)
        )
        last = f"; the highest wins by {sequence}" if sequence else ""
        flag = f"; a deleted row stays, with {one_line(table.flag)}" if table.flag else ""
        yield _below(f"mode: {table.mode}, one row for each key: {keys}{last}{flag}")
    if table.rewrite_bytes_max is not None:
        most = size_text(table.rewrite_bytes_max)
        yield _below(f"files that lose rows are written again, up to {most} a commit")
    if table.exchanged:
        yield _below("rows of a partition meet in one task, by hash, which writes them")
    if table.adopts is not None:
        yield _below(_adoption(table.adopts), "yellow")
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
    yield from _more(len(table.columns) - COLUMNS_SHOWN_MAX, "column")
    if table.missing:
        names = ", ".join(one_line(f"{n} {kind}") for n, kind in table.missing[:COLUMNS_SHOWN_MAX])
        policy = WITHOUT_COLUMN.get(table.columns_policy, table.columns_policy)
        yield _below(f"{policy}: {names}", "yellow")
    for name, near in table.unmatched_hints:
        meant = f"; did you mean {one_line(near)}?" if near else ""
        text = f"the hint {one_line(name)} matches no field of the sampled records{meant}"
        yield _below(text, "yellow")
    for name, hint, kind in table.ignored_hints:
        text = f"the hint {one_line(name)}: {hint} has no effect: the column is there, as {kind}"
        yield _below(text, "yellow")
    if table.creation_only:
        from penstock.app.inspect.creation_settings import without_effect

        yield _below(without_effect(table.creation_only), "dim")
    yield from _backlog_lines(table)


def _adoption(adopts: Adoption) -> str:
    rows = adopts.rows
    there = "its rows" if rows is None else number_of(rows, "row")
    verb, whose = ("stays", "its key changes") if rows == 1 else ("stay", "their key changes")
    return f"becomes keyed with the first commit; {there} from before {verb} until {whose}"


def _said(table: TablePlan, error: PenstockError) -> str:
    """Return an error's message without the name of the table that it is listed under."""
    return one_line(error.message.removeprefix(f"{table.table}: "))


def _below(text: str, style: str = "", *, cells: int = 4) -> RenderableType:
    return Padding(Text(text, style), (0, 0, 0, cells), expand=False)


def _way_out(error: PenstockError, *, cells: int = 4) -> Iterator[RenderableType]:
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
    if table.missing and table.columns_policy == "evolve":
        return "~", "bold yellow", "to land in, with new columns"
    if table.records or table.pending:
        return "~", "bold", "to land in"
    return "=", "bold", "nothing to do"


def _backlog_lines(table: TablePlan) -> Iterator[RenderableType]:
    for each in table.ranges[:PARTITIONS_SHOWN_MAX]:
        yield Text(
            f"    {one_line(each.topic)}[{each.partition}] from {each.start:,} to {each.stop:,}"
            f"  ({each.reason})",
            "dim" if not each.records else "",
        )
    yield from _more(len(table.ranges) - PARTITIONS_SHOWN_MAX, "partition")
    if table.records:
        size = "" if table.size_bytes is None else f", about {size_text(table.size_bytes)} to read"
        yield Text(f"    backlog: {number_of(table.records, 'record')}{size}")
    yield from _sampled_lines(table.sampled)


def _sampled_lines(sampled: Sampled) -> Iterator[RenderableType]:
    yield from _change_lines(sampled)
    if not sampled.quarantined and not sampled.filtered:
        return
    left = [f"{count_text(count)} {why}" for why, count in sampled.filtered.items()]
    out = f"; filtered: {', '.join(left)}" if left else ""
    outcome = "quarantined, if the run came to them" if sampled.would_park else "quarantined"
    rejected = count_text(sum(sampled.quarantined.values()))
    refused = f"; {rejected} would be {outcome}" if sampled.quarantined else ""
    said = f"of {number_of(sampled.records, 'sampled record')} {count_text(sampled.landed)} fit"
    yield _below(f"{said}{refused}{out}", "yellow")
    for each in sampled.rejects[:REJECTS_SHOWN_MAX]:
        place = f"{one_line(each.topic)}:{each.partition}:{each.offset}"
        yield _below(f"{each.code}  {one_line(each.message)}  ({count_text(each.count)})", "yellow")
        yield _below(f"{place}  {_excerpt(each.value)}", "dim", cells=10)
    yield from _more(len(sampled.rejects) - REJECTS_SHOWN_MAX, "reason", "yellow")


def _change_lines(sampled: Sampled) -> Iterator[RenderableType]:
    changes = sampled.changes
    if changes is None:
        return
    records = number_of(sampled.records, "sampled record")
    keys = number_of(changes.upserts + changes.deletes, "key")
    get = "gets" if changes.upserts == 1 else "get"
    are = "is" if changes.deletes == 1 else "are"
    yield _below(
        f"{records} change {keys}: {count_text(changes.upserts)} {get} a row, "
        f"{count_text(changes.deletes)} {are} deleted; {number_of(changes.superseded, 'record')} "
        "superseded by later ones of the same key"
    )
    if changes.across:
        yield _below(
            f"{number_of(changes.across, 'key')} changed in two partitions: which change is the "
            "last is not known (across_partitions)",
            "yellow",
        )


def _more(count: int, noun: str, style: str = "") -> Iterator[Text]:
    if count > 0:
        yield Text(f"    and {number_of(count, f'more {noun}')}", style)


def _excerpt(value: bytes | None) -> str:
    text = shown_bytes(value)
    cut = text[: EXCERPT_CHARACTERS_MAX - 1]
    return text if len(text) <= EXCERPT_CHARACTERS_MAX else f"{cut}…"
