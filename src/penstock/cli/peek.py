"""`penstock peek`: single records of a topic that is landed, or the next ones of a publication."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.text import Text

from penstock.cli.output import json_text, pasteable, print_result, result_console, say
from penstock.cli.parameters import SPEC, At, Json, Spec
from penstock.cli.publications import absent_words
from penstock.cli.record_text import key_and_headers, records_data, shortened, shown_bytes
from penstock.cli.shards import by_shard
from penstock.cli.specs import load_publications, load_spec, parts_of
from penstock.cli.waiting import waits_shown
from penstock.core.errors import InvalidError
from penstock.observe.formatting import one_line

if TYPE_CHECKING:
    from penstock.app.inspect.peek import Peeked, TableOutcome
    from penstock.app.inspect.publication_peek import PeekedMessage
    from penstock.app.inspect.row_effects import RowChange
    from penstock.core.offsets import TopicPartition
    from penstock.spec.publications import Publications

_EPOCH = datetime.fromtimestamp(0, UTC)


@by_shard()
def peek(
    topic: str | None = None,
    *,
    spec: Spec = SPEC,
    count: Annotated[int | None, Parameter(name=["--count", "-n"])] = None,
    at: Annotated[At, Parameter(help="The first record, as topic:partition:offset.")] = None,
    json: Json = False,
) -> int:
    """Trace single records: raw bytes, decoded value, route, row, or why one would be rejected.

    Of a publication, the next ones as they would be sent. Runs the same code as the workers; writes
    and sends nothing.

    Example: penstock peek orders -n 3

    Parameters
    ----------
    topic
        The topic; its newest records are shown. Or the publication, by its name in the spec: with
        --at from a place of its source on, else what it publishes next.
    count
        How many records; default: 5, or 1 with --at.
    """
    from penstock.app.inspect.peek import peek as peek_at
    from penstock.app.inspect.peek import spot
    from penstock.spec.publications import source_name

    where, parts = spot(at) if at else None, parts_of(spec)
    if parts.publishes:
        loaded = load_publications(spec)
        named = [rule.name for rule in loaded.publish if topic in (None, rule.name)]
        if where is not None and topic is None:
            reads = [rule.name for rule in loaded.publish if source_name(rule) == where.topic]
            named = [] if parts.lands else reads or named
        if named or not parts.lands:
            asked = count or (1 if where else 5)
            return _peek_publications(loaded, named or [topic or ""], asked, at=at, json=json)
    name = topic or (where.topic if where else "")
    if not name:
        raise InvalidError("peek needs a topic", code="P162", hint="penstock peek orders -n 5")
    pipeline = load_spec(spec)
    unanswered: list[TopicPartition] = []
    with waits_shown(as_json=json) as observer:
        found = peek_at(
            pipeline,
            name,
            count=count or (1 if where else 5),
            at=where,
            unanswered=unanswered.append,
            observer=observer,
        )
    for partition in unanswered:
        say(f"{partition} did not answer in time: its records are not shown")
    print_result(found, data=records_data, show=_show, json=json)
    return 0


def _peek_publications(
    loaded: Publications, names: Sequence[str], count: int, *, at: str | None, json: bool
) -> int:
    from penstock.app.inspect.publication_peek import absent_from, peek_publication

    found = [each for name in names for each in peek_publication(loaded, name, count, at=at or "")]
    print_result(found, data=records_data, show=_show_messages, json=json)
    for absent in (absent_from(loaded, name) for name in names if not json):
        if absent.fields:
            say(one_line(absent_words(absent)))
    if not json and not found:
        say(pasteable("nothing waits:  penstock status"))
    return 0


def _show_messages(found: Iterable[PeekedMessage]) -> None:
    console = result_console(soft_wrap=True)
    for each in found:
        console.print(Text(f"{each.publication}  {one_line(each.place)}", "bold"))
        if each.row is not None:
            console.print(Text(f"  row      {shortened(json_text(each.row))}"))
        for line in key_and_headers(each):
            console.print(Text(line))
        if each.outcome == "published":
            size = "tombstone" if each.value is None else f"{len(each.value):,} bytes"
            console.print(Text(f"  value    {size}  {shown_bytes(each.value)}"))
            at = "" if each.partition is None else f", partition {each.partition}"
            time = "" if each.timestamp_ms is None else f"  {_date(each.timestamp_ms)}"
            console.print(Text(f"  → {each.topic}{at}{time}", "green"))
        elif each.outcome == "filtered":
            console.print(Text(f"  → not published: {each.detail}", "yellow"))
        else:
            into = (
                f"rejected into {each.topic}" if each.topic else "would stop the publication (P840)"
            )
            console.print(Text(f"  → {into}: {each.code} {one_line(each.detail)}", "red"))


def _show(found: Iterable[Peeked]) -> None:
    console = result_console(soft_wrap=True)
    for each in found:
        for line in _lines(each):
            console.print(line)


def _lines(each: Peeked) -> Iterator[Text]:
    head = Text.assemble((f"{one_line(each.topic)}:{each.partition}:{each.offset}", "bold"))
    if each.timestamp_ms is not None:
        head.append(f"  {_date(each.timestamp_ms)}", "dim")
    yield head
    for line in key_and_headers(each):
        yield Text(line)
    size = "no value" if each.value is None else f"{len(each.value):,} bytes"
    yield Text(f"  raw      {size}  {shown_bytes(each.value)}")
    if each.decoded is not None:
        yield Text(f"  decoded  {shortened(json_text(each.decoded))}")
    for outcome in each.outcomes:
        yield from _outcome_lines(outcome)
    if not each.outcomes:
        yield Text("  → no table takes it", "yellow")


def _date(timestamp_ms: int) -> str:
    try:
        return f"{_EPOCH + timedelta(milliseconds=timestamp_ms):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:  # a producer may write any number
        return f"{timestamp_ms} ms since 1970"


def _outcome_lines(found: TableOutcome) -> Iterator[Text]:
    name = f"{found.table}{' (to be created)' if found.create else ''}"
    detail = f"{found.code} {one_line(found.detail)}".strip()
    if found.outcome == "quarantined":
        said = f"would be rejected: {detail}" if found.code else detail
        yield Text(f"  → {name}  {said}", "red" if found.code else "yellow")
    elif found.outcome != "landed" or not (found.rows or found.changes):
        yield Text(f"  → {name}  {found.outcome}: {detail}", "yellow")
    for change in found.changes:
        key = shortened(json_text(change.key))
        said = f"{change.change} of {key}: {_effect(change)}"
        yield Text(f"  → {name}  {one_line(said)}", "green")
    for row in found.rows:
        yield Text(f"  → {name}  {shortened(json_text(row))}", "green")
    for what, paths in (("dropped", found.dropped), ("kept in _rescued", found.rescued)):
        if paths:
            names = ", ".join(paths)
            yield Text(f"    {what}: {one_line(names)}", "yellow")


def _effect(change: RowChange) -> str:
    """Return what a change does to the rows that it finds, with where they come from."""
    places = ", ".join(f"{row.topic}[{row.partition}] offset {row.offset}" for row in change.rows)
    match change.effect:
        case "replaces" | "deletes":
            return f"{change.effect} the row of {places}"
        case "flags":
            return f"flags the row of {places} as deleted"
        case "inserts flagged":
            return "inserts a row that is flagged as deleted"
        case "is late":
            return f"is late: the row of {places} stays"
    return f"{change.effect}: {change.detail}" if change.detail else change.effect
