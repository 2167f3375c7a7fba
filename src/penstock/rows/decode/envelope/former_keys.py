"""The keys that JSON update events change: what an event says of the row before, if it is another.

Invariants:
- a member that the event lacks is null in a former key;
- it is written otherwise than the row's, and then the former row is read strictly; values that are
  written otherwise and equal are compared when they have their types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import msgspec

from penstock.core.names import folded
from penstock.rows.decode.envelope.json_envelopes import (
    NULL,
    Members,
    json_member,
    no_envelope,
    single_row,
)
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.options import Envelope

_KeyReader = Callable[[bytes], tuple[msgspec.Raw | msgspec.UnsetType, ...]]
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class FormerKey:
    """Finds the key that an update changes.

    `row_of` finds the former row, and `read` cuts the members of the `key` out of a row, each as it
    is written. A former row that `is_partial` holds what changed alone.
    """

    key: tuple[str, ...]
    depth_max: int
    read: _KeyReader
    row_of: Callable[[Members], bytes | None]
    is_partial: bool

    @classmethod
    def of(
        cls, envelope: Envelope, key: tuple[str, ...], *, case_sensitive: bool, depth_max: int
    ) -> FormerKey:
        """Return it for an envelope that holds former rows."""
        row_of, is_partial = _FORMER_ROWS[envelope]
        return cls(key, depth_max, _key_reader(key, case_sensitive), row_of, is_partial)

    def find(self, members: Members, row: bytes) -> bytes | None:
        """Return the former key of an event with a row as JSON; None where the row keeps it, or the
        event does not hold it. Raises RejectError.
        """
        former = self.row_of(members)
        if former is None or former == NULL:
            return None
        if not former.startswith(b"{"):
            raise no_envelope("the former row is not an object")
        try:
            was, now = self.read(former), self.read(row)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            parse_object(former, depth_max=self.depth_max)
            return None  # the row is at fault, and is rejected for it
        if was == now:
            return None
        if self.is_partial:
            was = tuple(b if a is msgspec.UNSET else a for a, b in zip(was, now, strict=True))
        texts = [NULL if isinstance(each, msgspec.UnsetType) else bytes(each) for each in was]
        if was == now:
            return None
        parse_object(former, depth_max=self.depth_max)
        written = (json_member(name, each) for name, each in zip(self.key, texts, strict=True))
        return b"{%s}" % b",".join(written)


@lru_cache(maxsize=64)
def _key_reader(key: tuple[str, ...], case_sensitive: bool) -> _KeyReader:  # noqa: FBT001
    """Return what cuts a key out of a row; of a member that occurs twice the last counts.

    It raises `msgspec.DecodeError` for what is no object.
    """
    if not case_sensitive:
        return partial(_members_in, tuple(map(folded, key)), folded)
    places = {f"f{place}": name for place, name in enumerate(key)}
    members: Any = [(place, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for place in places]
    try:
        type_ = msgspec.defstruct("Key", members, rename=places, gc=False)
        decode = msgspec.json.Decoder(type_).decode
    except ValueError:  # msgspec has no place for some names (quotes, control characters)
        return partial(_members_in, key, str)
    return lambda row: msgspec.structs.astuple(decode(row))


def _members_in(
    key: tuple[str, ...], spelled: Callable[[str], str], row: bytes
) -> tuple[msgspec.Raw | msgspec.UnsetType, ...]:
    members = {spelled(name): each for name, each in _MEMBERS.decode(row).items()}
    return tuple(members.get(name, msgspec.UNSET) for name in key)


def _before(members: Members) -> bytes | None:
    return members.get("before")


def _old(members: Members) -> bytes | None:
    return members.get("old")


_FORMER_ROWS: Mapping[str, tuple[Callable[[Members], bytes | None], bool]] = {
    "debezium": (_before, False),
    "maxwell": (_old, True),
    "canal": (partial(single_row, name="old"), True),
}
WITH_FORMER_ROWS = frozenset(_FORMER_ROWS)
"""Envelopes that may say what a row was before an update."""
