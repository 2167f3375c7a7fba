"""What Debezium sends in place of a value that did not change and that the log did not hold.

Its text is a setting of the connector, `unavailable.value.placeholder`, and of ours.

Source: Debezium, `UnchangedToastedPlaceholder` of its PostgreSQL connector.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import md5
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The forms of one placeholder.

    `values` are texts and bytes; in an array of UUIDs it is one item, Java's `nameUUIDFromBytes` of
    the text. `numbers` stand in place of an array of numbers: the bytes of the text, each as an
    item. `pattern` matches a JSON text with one in it, also where ASCII is escaped.
    """

    values: frozenset[str | bytes]
    numbers: tuple[str, ...]
    pattern: str

    @property
    def texts(self) -> list[str]:
        """List the values that are text."""
        return sorted(value for value in self.values if isinstance(value, str))


@lru_cache(maxsize=16)
def placeholder(text: str) -> Placeholder:
    """Work out the forms of a placeholder's text, which is ASCII."""
    data = text.encode("ascii")
    in_base64 = base64.b64encode(data).decode()
    as_uuid = str(UUID(bytes=md5(data, usedforsecurity=False).digest(), version=3))
    numbers = tuple(map(str, data))
    begin = r"\s*,\s*".join(numbers[:3])
    pattern = f"{re.escape(text)}|{re.escape(in_base64)}|{as_uuid}|\\\\u00[2-7]|{begin}"
    return Placeholder(frozenset({text, in_base64, as_uuid, data}), numbers, pattern)
