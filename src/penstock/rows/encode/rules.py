"""How rows become messages, as data: what is their key, value and time, and which are left out.

Invariant: all of it is plain data, and so part of a job; with equal rules equal rows give equal
messages, but for the time where no column says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.rows.encode.json_texts import JsonForm


@dataclass(frozen=True, slots=True)
class MessageRules:
    """What a message is made of; "" and () where the spec says nothing.

    `key` are columns: one that stands alone gives its text or bytes, several an object of JSON, as
    one does where `key_is_object`. The value is an object of all columns, or the bytes of one,
    `bytes_of`. `where` and `delete_when` are conditions in SQL, `timestamp` is a column.
    """

    key: tuple[str, ...] = ()
    key_is_object: bool = False
    form: JsonForm = field(default_factory=JsonForm)
    bytes_of: str = ""
    where: str = ""
    delete_when: str = ""
    timestamp: str = ""


def rules_to_data(rules: MessageRules) -> dict[str, Any]:
    """Return the plain form."""
    return asdict(rules)


def rules_from_data(data: Mapping[str, Any]) -> MessageRules:
    """Read the plain form."""
    return MessageRules(**{**data, "key": tuple(data["key"]), "form": JsonForm(**data["form"])})
