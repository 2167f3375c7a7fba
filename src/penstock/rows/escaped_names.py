"""Names of columns in formats that take letters, digits and `_` alone, and back.

Source: Apache Iceberg specification, "Appendix A: Avro"; Protocol Buffers, "JSON mapping".
"""

from __future__ import annotations

import re

OWN_NAME = "iceberg-field-name"
"""The property of a field of Avro that has the column's name where the field's cannot."""
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_]")
_NOT_OF_PROTOBUF = re.compile(r"^[0-9]|[^A-Za-z0-9_]")


def escaped(name: str) -> str:
    """Return a name as Avro takes it, as Iceberg does: other characters by their numbers."""
    if name[:1].isdigit():
        name = f"_{name}"
    return _NOT_IN_NAME.sub(_by_number, name) or "_"


def escaped_for_protobuf(name: str) -> str:
    """Return a name as Protobuf takes it: none is what Protobuf itself makes of another in JSON."""
    return _NOT_OF_PROTOBUF.sub(_by_number, name) or "_"


def _by_number(found: re.Match[str]) -> str:
    return f"_x{ord(found[0]):X}"


def camel(name: str) -> str:
    """Return the name that Protobuf gives a field in JSON."""
    first, *more = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in more)


def column_of(name: str, in_json: str) -> str:
    """Return the column of a field of Protobuf: its name in JSON where it is that name escaped."""
    return in_json if escaped_for_protobuf(in_json) == name else name
