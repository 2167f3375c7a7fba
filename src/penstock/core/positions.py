"""Source partitions and positions of a publication, and their keys in the offsets topic.

A source says where it stands in flat JSON objects: of strings, whole numbers of 64 bits, true,
false and null. Here they are the canonical text of such an object.

Invariants:
- two objects are equal if and only if their texts are: `1`, `true` and `"1"` differ;
- a text has no spaces, its members are in the order of their names, and its strings are written
  as Connect writes them, so that an object of one member has the bytes that Connect gives it;
- a key that Connect wrote keeps its bytes: Connect finds a position by the bytes of its key.

Source: `org.apache.kafka.connect.storage.OffsetUtils`, `OffsetStorageWriter`; Jackson,
`UTF8JsonGenerator`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

from penstock.core.errors import InvalidError

Scalar = str | int | bool | None
SourcePartition = NewType("SourcePartition", str)
"""The canonical text of what identifies a part of a source."""
Position = NewType("Position", str)
"""The canonical text of where a source partition stands."""

OBJECT_BYTES_MAX = 32_768
"""Of one canonical text; a key and two positions fit into one part of a receipt."""
RESERVED = "penstock"
"""The member that keys of ledgers and receipts have, and source partitions do not."""

_INTEGERS = range(-(2**63), 2**63)
_ESCAPED = re.compile('["\\\\\x00-\x1f\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """The key of a publication's source partition in the offsets topic; `raw` are its bytes there.

    Keys are equal by what they mean, whatever the order of members in `raw`.
    """

    name: str
    partition: SourcePartition
    raw: bytes = field(compare=False)


def partition_of(values: Mapping[str, Scalar], source: str) -> SourcePartition:
    """Return the canonical text of a source partition that `source` gave.

    Raises InvalidError (P290), also for the member that is reserved.
    """
    if RESERVED in values:
        raise _refused(f"has the member {RESERVED!r}, which is reserved", source)
    return SourcePartition(_checked(values, source))


def position_of(values: Mapping[str, Scalar], source: str) -> Position:
    """Return the canonical text of a position that `source` gave. Raises InvalidError (P290)."""
    return Position(_checked(values, source))


def values_of(text: SourcePartition | Position) -> dict[str, Scalar]:
    """Return the members of the object of a canonical text, in the order of their names."""
    members: dict[str, Scalar] = json.loads(text)
    return members


def key_of(name: str, values: Mapping[str, Scalar]) -> OffsetKey:
    """Return the key that is written for a partition, or for a record of the publication itself."""
    text = canonical(values)
    return OffsetKey(name, SourcePartition(text), f"[{_string(name)},{text}]".encode())


def parse_key(raw: bytes) -> OffsetKey:
    """Read a key of the offsets topic, whatever the order of its members.

    Raises InvalidError (P291).
    """
    match _parsed(raw, "key"):
        case [str(name), dict(values)]:
            fault = fault_of(values) or (_SURROGATE.search(name) and "half a character")
            if fault:
                raise _unreadable("key", raw, f"it has {fault}")
            return OffsetKey(name, SourcePartition(canonical(values)), raw)
    raise _unreadable("key", raw, 'a key is ["name",{…}]')


def parse_position(raw: bytes) -> Position:
    """Read a value of the offsets topic as a position. Raises InvalidError (P291)."""
    values = _parsed(raw, "position")
    if not isinstance(values, dict):
        raise _unreadable("position", raw, "a position is an object")
    if fault := fault_of(values):
        raise _unreadable("position", raw, f"it has {fault}")
    return Position(canonical(values))


def is_key_of(name: str, raw: bytes) -> bool:
    """Return whether a key of the offsets topic, in whatever form, is of a publication."""
    try:
        match json.loads(raw):
            case [str(own), *_]:
                return own == name
    except (ValueError, RecursionError):
        pass
    return False


def stands_of(name: str, entries: Mapping[bytes, bytes]) -> dict[OffsetKey, Position]:
    """Return where the source partitions of a publication stand, from what the topic holds.

    The topic may be shared: keys of others, in whatever form, are passed over, and so are the
    publication's own records. Raises InvalidError (P291): also where two keys are of one partition,
    which Connect would take for two.
    """
    stands: dict[OffsetKey, Position] = {}
    for raw, value in entries.items():
        if not is_key_of(name, raw):
            continue
        key = parse_key(raw)
        if RESERVED in values_of(key.partition):
            continue
        if key in stands:
            raise _unreadable("key", raw, "another key is of the same source partition")
        stands[key] = parse_position(value)
    return stands


def canonical(values: Mapping[str, Scalar]) -> str:
    """Write an object without fault as its canonical text."""
    members = (f"{_string(name)}:{_scalar(values[name])}" for name in sorted(values))
    return "{" + ",".join(members) + "}"


def fault_of(values: Mapping[Any, Any]) -> str:
    """Say what keeps an object from being a source partition or position; "" for nothing."""
    for name, value in values.items():
        if not isinstance(name, str):
            return f"a member whose name is no string: {name!r:.80}"
        if isinstance(value, int) and value not in _INTEGERS:
            return f"in {name!r:.80} a number of more than 64 bits"
        if not isinstance(value, str | int | None):
            return f"in {name!r:.80} a {type(value).__name__}: {value!r:.80}"
        if _SURROGATE.search(name) or (isinstance(value, str) and _SURROGATE.search(value)):
            return f"in {name!r:.80} half a character (a lone surrogate)"
    size = len(canonical(values).encode())
    return f"{size} bytes, and {OBJECT_BYTES_MAX} are allowed" if size > OBJECT_BYTES_MAX else ""


def _checked(values: Mapping[str, Scalar], source: str) -> str:
    if fault := fault_of(values):
        raise _refused(f"has {fault}", source)
    return canonical(values)


def _parsed(raw: bytes, what: str) -> Any:
    """Read JSON of which no member is there twice."""
    try:
        return json.loads(raw.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _unreadable(what, raw, f"{type(error).__name__}: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member is there twice")
    return members


def _scalar(value: Scalar) -> str:
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SHORT:
        return _SHORT[character]
    units = character.encode("utf-16-be").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _refused(fault: str, source: str) -> InvalidError:
    return InvalidError(
        f"a source partition or position of {source} {fault}",
        code="P290",
        hint="let the source give flat objects of strings, 64-bit integers, booleans and null",
    )


def _unreadable(what: str, raw: bytes, fault: str) -> InvalidError:
    return InvalidError(
        f"the offsets topic has a {what} that cannot be read: {raw[:200]!r}: {fault}",
        code="P291",
        hint="read the topic with kafka-console-consumer --property print.key=true"
        " --from-beginning, and find out who writes to it",
    )
