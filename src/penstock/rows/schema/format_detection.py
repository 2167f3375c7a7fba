"""Detects the format, compression and envelope of a topic's values, for its spec.

Invariant: the result is a guess, made from a sample, and the converter decides: a caller that
drafts a spec from it converts the sample, and reports what does not fit.

Source: Confluent Schema Registry, "Wire format"; Apache Avro, "Single-object encoding"; RFC 1952;
the envelopes of json_envelopes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec

from penstock.ports.registry import RegisteredSchema, SchemaKey
from penstock.rows.decode.compression import gunzip
from penstock.rows.decode.format_reader import or_none
from penstock.rows.decode.json.parser import utf8_text
from penstock.rows.decode.schema_id import named_by
from penstock.rows.options import Envelope, Format

MOST = 0.9
"""The share of values that must be of a kind for a topic to be of it."""
SCHEMAS_MAX = 8
"""A sample names at most so many schemas; bytes that begin with zeros by chance name more."""
ID_MAX = 1 << 24
"""A registry is not likely to assign larger ids."""
UNPACKED_MAX, UNPACKED_BYTES_MAX = 100, 1 << 20
_GZIP = b"\x1f\x8b\x08"

T = TypeVar("T")
Find = Callable[[SchemaKey], RegisteredSchema | None]


@dataclass(frozen=True, slots=True)
class DetectedFormat:
    """The settings of a spec under `records`, or in `unsupported` why none fits."""

    format: Format = "json"
    envelope: Envelope = "none"
    compression: Literal["none", "gzip"] = "none"
    framing: Literal["registry", "single-object"] = "registry"
    unsupported: str = ""

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that differ from the spec's defaults."""
        plain = DetectedFormat()
        names = ("format", "framing", "compression", "envelope")
        said = {name: str(getattr(self, name)) for name in names}
        return {name: value for name, value in said.items() if value != getattr(plain, name)}


def detect_format(values: Sequence[bytes], find: Find | None) -> DetectedFormat:
    """Guess the format of values that are not null; `find` asks the registry, None without one.

    Raises what `Registry.find` raises.
    """
    if _are_most(values, lambda value: value.startswith(_GZIP)):
        unpack = partial(gunzip, bytes_max=UNPACKED_BYTES_MAX)
        some = (or_none(unpack, each) for each in values[:UNPACKED_MAX])
        plain = [each for each in some if each is not None]
        if not plain:
            return DetectedFormat("bytes")
        return replace(detect_format(plain, find), compression="gzip")
    keys = [key for value in values if (key := named_by(value)) is not None]
    keys = [key for key in keys if key.kind != "id" or 0 < int(key.value) < ID_MAX]
    if len(keys) >= MOST * len(values) and len(set(keys)) <= SCHEMAS_MAX:
        return _registered(keys, find)
    objects = [each for value in values if isinstance(each := _decoded(value), dict)]
    if len(objects) * 2 >= len(values):
        return _of_objects(objects)
    are_texts = all(or_none(utf8_text, value) is not None for value in values)
    return DetectedFormat("text" if are_texts else "bytes")


def _registered(keys: Sequence[SchemaKey], find: Find | None) -> DetectedFormat:
    single = keys[0].kind == "fingerprint"
    named = ", ".join(sorted({f"{key.kind} {key.value}" for key in keys}))
    if find is None:
        return DetectedFormat(
            unsupported=f"its values name schemas of a registry ({named}): --registry URL"
        )
    for key in dict.fromkeys(keys):
        found = find(key)
        if found is not None and found.format != "other":
            return DetectedFormat(found.format, framing="single-object" if single else "registry")
    return DetectedFormat(unsupported=f"the registry has no usable schema of {named}")


def _of_objects(objects: Sequence[Mapping[str, Any]]) -> DetectedFormat:
    if _are_most(objects, lambda each: each.keys() == {"schema", "payload"}):
        rows = [each["payload"] for each in objects if isinstance(each.get("payload"), dict)]
        return DetectedFormat("json-schema-envelope", _envelope(rows, ("debezium", "flattened")))
    return DetectedFormat("json", _envelope(objects, tuple(_SIGNS)))


def _envelope(rows: Sequence[Mapping[str, Any]], known: Sequence[Envelope]) -> Envelope:
    found = (each for each in known if rows and _are_most(rows, _SIGNS[each]))
    return next(found, "none")


def _is_debezium(row: Mapping[str, Any]) -> bool:
    if {"ddl", "databaseName"} <= row.keys():
        return True
    images = {"before", "after"} & row.keys()
    return row.get("op") in ("c", "u", "d", "r", "t", "m") and bool(images) and "source" in row


def _is_dms(row: Mapping[str, Any]) -> bool:
    metadata = row.get("metadata")
    return isinstance(metadata, dict) and metadata.get("record-type") in ("data", "control")


def _is_maxwell(row: Mapping[str, Any]) -> bool:
    kind = row.get("type")
    return {"database", "ts"} <= row.keys() and isinstance(kind, str) and kind.islower()


def _is_canal(row: Mapping[str, Any]) -> bool:
    kind = row.get("type")
    return {"database", "isDdl", "es"} <= row.keys() and isinstance(kind, str) and kind.isupper()


def _is_flattened(row: Mapping[str, Any]) -> bool:
    return row.get("__op") in ("c", "u", "d", "r") or row.get("__deleted") in (
        *("true", "false"),
        *(True, False),
    )


_SIGNS: Mapping[Envelope, Callable[[Mapping[str, Any]], bool]] = {
    "debezium": _is_debezium,
    "dms": _is_dms,
    "maxwell": _is_maxwell,
    "canal": _is_canal,
    "flattened": _is_flattened,
}


def _decoded(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _are_most(values: Sequence[T], is_one: Callable[[T], bool]) -> bool:
    return bool(values) and sum(map(is_one, values)) >= MOST * len(values)
