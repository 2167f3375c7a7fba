"""`penstock peek`."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.text import Text

from penstock.cli.output import print_result, result_console, say
from penstock.cli.parameters import SPEC, At, Json, Spec
from penstock.cli.record_text import (
    key_and_headers,
    plain_data,
    records_data,
    shortened,
    shown_bytes,
)
from penstock.cli.specs import load_spec
from penstock.cli.waiting import waits_shown
from penstock.core.errors import InvalidError
from penstock.observe.formatting import one_line

if TYPE_CHECKING:
    from penstock.app.inspect.peek import Peeked, TableOutcome
    from penstock.core.offsets import TopicPartition

_EPOCH = datetime.fromtimestamp(0, UTC)


def peek(
    topic: str | None = None,
    *,
    spec: Spec = SPEC,
    count: Annotated[int | None, Parameter(name=["--count", "-n"])] = None,
    at: Annotated[At, Parameter(help="The first record, as topic:partition:offset.")] = None,
    json: Json = False,
) -> int:
    """Trace single records: raw bytes, decoded value, route, row, or why one would be rejected.

    Runs the same code as the workers; writes nothing.

    Example: penstock peek orders -n 3

    Parameters
    ----------
    topic
        The topic; its newest records are shown.
    count
        How many records; default: 5, or 1 with --at.
    """
    from penstock.app.inspect.peek import peek as look
    from penstock.app.inspect.peek import spot

    where = spot(at) if at else None
    name = topic or (where.topic if where else "")
    if not name:
        raise InvalidError("peek needs a topic", code="P162", hint="penstock peek orders -n 5")
    pipeline = load_spec(spec)
    unheard: list[TopicPartition] = []
    with waits_shown(as_json=json) as observer:
        found = look(
            pipeline,
            name,
            count=count or (1 if where else 5),
            at=where,
            unheard=unheard.append,
            observer=observer,
        )
    for left_out in unheard:
        say(f"{left_out} did not answer in time and is left out")
    print_result(found, data=records_data, show=_show, json=json)
    return 0


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
        yield Text(f"  decoded  {shortened(json_text.dumps(each.decoded, ensure_ascii=False))}")
    for fate in each.fates:
        yield from _fate_lines(fate)
    if not each.fates:
        yield Text("  → no table takes it", "yellow")


def _date(timestamp_ms: int) -> str:
    try:
        return f"{_EPOCH + timedelta(milliseconds=timestamp_ms):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:  # a producer may write any number
        return f"{timestamp_ms} ms since 1970"


def _fate_lines(fate: TableOutcome) -> Iterator[Text]:
    name = f"{fate.table}{' (to be created)' if fate.unborn else ''}"
    detail = f"{fate.code} {one_line(fate.detail)}".strip()
    if fate.outcome == "quarantine":
        yield Text(f"  → {name}  would be rejected: {detail}", "red")
    elif fate.outcome != "row":
        yield Text(f"  → {name}  {fate.outcome}: {detail}", "yellow")
    for row in fate.rows:
        shown = json_text.dumps(plain_data(row), ensure_ascii=False, default=str)
        yield Text(f"  → {name}  {shortened(shown)}", "green")
