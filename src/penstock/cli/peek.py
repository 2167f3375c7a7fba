"""`penstock peek`."""

from __future__ import annotations

import base64
import json as json_text
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.cli.output import print_json, result_console, say
from penstock.cli.specs import SPEC, Spec, load_spec
from penstock.cli.waiting import waits_told
from penstock.core.errors import InvalidError
from penstock.observe.figures import one_line

if TYPE_CHECKING:
    from rich.text import Text

    from penstock.app.peek import Fate, Peeked
    from penstock.core.offsets import TopicPartition

SHOWN_CHARACTERS_MAX = 2000
_EPOCH = datetime.fromtimestamp(0, UTC)


def peek(
    topic: str | None = None,
    *,
    spec: Spec = SPEC,
    count: Annotated[int | None, Parameter(name=["--count", "-n"])] = None,
    at: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Follow single records: raw bytes, decoded, route, row, or why it would be refused.

    Each goes through the workers' own code; nothing is written.

    Example: penstock peek orders -n 3

    Parameters
    ----------
    topic
        The topic, whose newest records are shown.
    spec
        The spec of the pipeline.
    count
        How many records: 5, or 1 with --at, when left out.
    at
        From which record on, as topic:partition:offset.
    json
        Print JSON.
    """
    from penstock.app.peek import peek as look
    from penstock.app.peek import spot

    where = spot(at) if at else None
    name = topic or (where.topic if where else "")
    if not name:
        raise InvalidError("peek needs a topic", code="P162", hint="penstock peek orders -n 5")
    pipeline = load_spec(spec)
    unheard: list[TopicPartition] = []
    with waits_told(as_json=json) as observer:
        found = look(
            pipeline,
            name,
            count=count or (1 if where else 5),
            at=where,
            unheard=unheard.append,
            observer=observer,
        )
    for left_out in unheard:
        say(f"{left_out} gave nothing in time and is left out")
    if json:
        print_json([_data(each) for each in found])
        return 0
    console = result_console(soft_wrap=True)
    for each in found:
        for line in _lines(each):
            console.print(line)
    return 0


def _data(each: Peeked) -> dict[str, Any]:
    data: dict[str, Any] = plain_data(asdict(each))
    data["text"] = text_of(each.value)
    return data


def plain_data(value: Any) -> Any:
    """Give bytes as Base64 and everything else as JSON takes it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(key): plain_data(member) for key, member in value.items()}
        case list() | tuple():
            return [plain_data(member) for member in value]
        case _:
            return value


def _lines(each: Peeked) -> Iterator[Text]:
    from rich.text import Text

    head = Text.assemble((f"{one_line(each.topic)}:{each.partition}:{each.offset}", "bold"))
    if each.timestamp_ms is not None:
        head.append(f"  {_date(each.timestamp_ms)}", "dim")
    yield head
    if each.key is not None:
        yield Text(f"  key      {shown_bytes(each.key)}")
    for name, value in each.headers:
        yield Text(f"  header   {one_line(name)}: {shown_bytes(value)}")
    yield Text(f"  raw      {_size(each.value)}  {shown_bytes(each.value)}")
    if each.decoded is not None:
        yield Text(f"  decoded  {_short(json_text.dumps(each.decoded, ensure_ascii=False))}")
    for fate in each.fates:
        yield from _fate_lines(fate)
    if not each.fates:
        yield Text("  → no table takes it", "yellow")


def _date(timestamp_ms: int) -> str:
    try:
        return f"{_EPOCH + timedelta(milliseconds=timestamp_ms):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:  # a producer may write any number
        return f"{timestamp_ms} ms since 1970"


def _fate_lines(fate: Fate) -> Iterator[Text]:
    from rich.text import Text

    name = f"{fate.table}{' (to be created)' if fate.unborn else ''}"
    if fate.outcome == "quarantine":
        yield Text(f"  → {name}  would be refused: {fate.code} {one_line(fate.detail)}", "red")
    elif fate.outcome != "row":
        detail = f"{fate.code} {one_line(fate.detail)}".strip()
        yield Text(f"  → {name}  {fate.outcome}: {detail}", "yellow")
    for row in fate.rows:
        told = json_text.dumps(plain_data(row), ensure_ascii=False, default=str)
        yield Text(f"  → {name}  {_short(told)}", "green")


def shown_bytes(value: bytes | None) -> str:
    """Give bytes as text where they are, else in hexadecimal; cut where they are long."""
    if value is None:
        return "null"
    text = text_of(value)
    return _short(text if text is not None else value.hex(" "))


def text_of(value: bytes | None) -> str | None:
    """Give bytes as text, or None where they are none."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _short(text: str) -> str:
    kept = one_line(text[:SHOWN_CHARACTERS_MAX])
    return kept if len(text) <= SHOWN_CHARACTERS_MAX else f"{kept}…"


def _size(value: bytes | None) -> str:
    return "no value" if value is None else f"{len(value):,} bytes"
