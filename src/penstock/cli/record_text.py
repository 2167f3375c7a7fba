"""Keys, headers and values of records as commands print them: text, else hexadecimal, cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.cli.output import fields_of
from penstock.observe.formatting import one_line

if TYPE_CHECKING:
    from penstock.app.inspect.peek import Peeked
    from penstock.app.inspect.publication_peek import PeekedMessage
    from penstock.app.repair.quarantine import RejectedRecord

SHOWN_CHARACTERS_MAX = 2000


def records_data(
    records: Iterable[Peeked | PeekedMessage | RejectedRecord],
) -> list[dict[str, Any]]:
    """Return records for JSON, with `text` where the value is UTF-8."""
    return [{**fields_of(each), "text": _text(each.value)} for each in records]


def key_and_headers(record: Peeked | PeekedMessage | RejectedRecord) -> Iterator[str]:
    """Return the lines that show a record's key and headers."""
    if record.key is not None:
        yield f"  key      {shown_bytes(record.key)}"
    headers: Iterable[tuple[str, bytes | None]] = record.headers
    for name, value in headers:
        yield f"  header   {one_line(name)}: {shown_bytes(value)}"


def shown_bytes(value: bytes | None) -> str:
    """Return bytes as text where they are UTF-8, else in hexadecimal; long ones are cut."""
    if value is None:
        return "null"
    text = _text(value)
    return shortened(text if text is not None else value.hex(" "))


def shortened(text: str) -> str:
    """Return a text on one line, cut after `SHOWN_CHARACTERS_MAX`."""
    kept = one_line(text[:SHOWN_CHARACTERS_MAX])
    return kept if len(text) <= SHOWN_CHARACTERS_MAX else f"{kept}…"


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
