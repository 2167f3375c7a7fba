"""What single messages and values of well-known types say, for both ways of reading.

Invariant: the runtime's methods are called on its classes: a field may have the name of one.
"""

from __future__ import annotations

import json
from typing import Any

from penstock.rows.decode.logical_types import NS
from penstock.rows.reject_codes import RejectCode, RejectError


def discard_unknown(message: Any) -> bool:
    """Leave unknown fields out of a message and those in it, and tell whether there were any."""
    own = type(message)
    size = len(own.SerializePartialToString(message))
    own.DiscardUnknownFields(message)
    return len(own.SerializePartialToString(message)) != size


def has_field(message: Any, name: str) -> bool:
    """Return whether a field of a message was set."""
    found: bool = type(message).HasField(message, name)
    return found


def nanoseconds(seconds: int, nanos: int) -> int:
    """Count nanoseconds since 1970 in a Timestamp. Raises RejectError for one that is none."""
    if not 0 <= nanos < NS:
        raise RejectError(RejectCode.MALFORMED, "a Timestamp whose nanos are not within a second")
    return seconds * NS + nanos


def json_text(message: Any) -> str:
    """Show a Struct, Value or ListValue as JSON text, keys in order. Raises RejectError."""
    from google.protobuf import json_format  # noqa: PLC0415  of the extra `protobuf`

    try:
        tree = json_format.MessageToDict(message)
    except (ValueError, RecursionError, json_format.SerializeToJsonError) as error:
        raise RejectError(RejectCode.MALFORMED, "a Value that JSON cannot show") from error
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def keys_in_order(entries: Any) -> list[Any]:
    """Return the keys of a map in their order. Raises RejectError for text that is not UTF-8."""
    keys = list(entries)
    if any(type(key) is bytes for key in keys):
        raise RejectError(RejectCode.NOT_UTF8, "a string is not UTF-8")
    keys.sort()
    return keys
