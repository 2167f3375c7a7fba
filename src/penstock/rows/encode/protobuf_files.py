"""Compiled Protobuf files as the trees that messages are written by.

Source: `google/protobuf/descriptor.proto`, `google/protobuf/wrappers.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.rows.encode.protobuf_schema import MESSAGES, NUMBER_MAX, Tree
from penstock.rows.escaped_names import column_of

DEPTH_MAX = 64
_REPEATED, _REQUIRED = 3, 2
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
_WRAPPERS = "google.protobuf.{}Value"
_KINDS = {
    **dict(enumerate(("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32"), 1)),
    **dict(enumerate(("bool", "string"), 8)),
    **dict(enumerate(("bytes", "uint32"), 12)),
    **dict(enumerate(("sfixed32", "sfixed64", "sint32", "sint64"), 15)),
}
"""By `FieldDescriptorProto.Type`."""
_WRAPPED = frozenset(
    _WRAPPERS.format(each)
    for each in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_KNOWN = {name: kind for kind, name in MESSAGES.items()}


def compiled_tree(descriptors: bytes, fault: str) -> Tree:
    """Return the first message of the last file, that a frame with one zero names.

    Raises ValueError, which says why messages cannot be written by it.
    """
    from google.protobuf import descriptor_pb2  # noqa: PLC0415  of the extra `protobuf`

    if fault:
        raise ValueError(fault)
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    if not files or not files[-1].message_type:
        raise ValueError("it has no message of Protobuf")
    reading = _Reading()
    for file in files:
        reading.add(file)
    main, package = files[-1], files[-1].package
    name = f"{package}.{main.message_type[0].name}".lstrip(".")
    return {**reading.message(name, ()), "package": package}


class _Reading:
    """The types of all files by their full names, and whether their fields always have presence."""

    def __init__(self) -> None:
        self._types: dict[str, tuple[Any, bool]] = {}

    def add(self, file: Any) -> None:
        types = [*file.message_type, *file.enum_type]
        waiting = [(file.package, each) for each in types]
        while waiting:
            within, each = waiting.pop()
            name = f"{within}.{each.name}".lstrip(".")
            self._types[name] = (each, file.syntax != "proto3")
            if hasattr(each, "field"):
                waiting += [(name, inner) for inner in (*each.nested_type, *each.enum_type)]

    def message(self, name: str, within: tuple[str, ...]) -> dict[str, Any]:
        if name in within or len(within) >= DEPTH_MAX:
            raise ValueError(f"the message {name} is within itself, or too deep")
        found, always = self._types[name]
        fields = [self._field(each, (*within, name), always=always) for each in found.field]
        spans = (range(each.start, min(each.end, NUMBER_MAX)) for each in found.reserved_range)
        return {
            "name": found.name,
            "fields": fields,
            "reserved": sorted({number for span in spans for number in span}),
            "reserved_names": sorted(found.reserved_name),
        }

    def _field(self, field: Any, within: tuple[str, ...], *, always: bool) -> dict[str, Any]:
        if field.HasField("oneof_index") and not field.proto3_optional:
            raise ValueError(f"the field {field.name} is one of several of a oneof")
        column = column_of(field.name, field.json_name)
        made = {"name": field.name, "column": column, "number": field.number}
        entry = self._entry(field)
        if entry is not None:
            key, value = entry.field
            return {**made, "label": "map", "key": _KINDS[key.type], **self._value(value, within)}
        if field.label == _REPEATED:
            return {**made, "label": "repeated", **self._value(field, within)}
        has_presence = always or field.proto3_optional or field.type == _MESSAGE
        is_required = not has_presence or field.label == _REQUIRED
        label = "required" if is_required else "optional"
        return {**made, "label": label, **self._value(field, within)}

    def _entry(self, field: Any) -> Any:
        """Return the entry of a map, None for another field."""
        if field.type != _MESSAGE:
            return None
        found, _ = self._types[field.type_name.lstrip(".")]
        return found if found.options.map_entry else None

    def _value(self, field: Any, within: tuple[str, ...]) -> Mapping[str, Any]:
        name = field.type_name.lstrip(".")
        if field.type == _GROUP:
            raise ValueError(f"the field {field.name} is a group")
        if field.type == _ENUM:
            symbols = self._types[name][0].value
            return {"kind": "enum", "symbols": {each.name: each.number for each in symbols}}
        if field.type != _MESSAGE:
            return {"kind": _KINDS[field.type]}
        if name in _KNOWN:
            return {"kind": _KNOWN[name]}
        if name in _WRAPPED:
            return {"kind": _KINDS[self._types[name][0].field[0].type], "wrapped": True}
        return {"kind": "message", "message": self.message(name, within)}
