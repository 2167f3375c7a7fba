"""A Protobuf schema becomes descriptors: protoc, once for each schema.

Schemas come as text, or as a serialized FileDescriptorProto in base64 (`?format=serialized`), which
is what .NET clients register. A file that comes serialized may refer to texts, and not the reverse.

Invariants:
- protoc runs in a process of its own, which no text can take ours with;
- names of files stay in a directory that is removed, and replace none of protoc's own library;
- a text that does not compile is a fault of the schema; what this machine lacks is none.
"""

from __future__ import annotations

import base64
import errno
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.registry import RegisteredSchema

TIMEOUT_SECONDS = 60.0
_MAIN = "penstock_main.proto"
_OUT = "descriptors"
_PROTOC = ("-m", "grpc_tools.protoc")
_OWN = ("google", "protobuf")
_NAMES = frozenset({errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EINVAL})
_TEXTS = "texts"
_FAULT_CHARS_MAX = 120
_SERIALIZED = re.compile(r"\s*[A-Za-z0-9+/]{4,}={0,2}\s*")
"""A serialized file; a text of the language has signs that base64 has not."""
_SET = "files"
_ALL = "penstock_imports.proto"
_UNSAFE = re.compile(r'[\0"\\\n]')
_PLACED = re.compile(r"(?:[^ ]+:\d+:\d+|schema): (?!warning)")
"""What begins a line of protoc's that is an error in a file, and no warning of its libraries."""
_LOGGED = re.compile(r"^E\d.* descriptor_database\.cc:\d+\] ", re.MULTILINE)
"""What begins a line of its log about a serialized file that it does not even take in."""
_META = """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL = """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_KNOWN: Mapping[str, str] = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
}
"""Imports that a registry provides itself, and does not list as references."""


def compiled(schema: RegisteredSchema) -> RegisteredSchema:
    """Return a Protobuf schema with its descriptors, or with its fault; another as it is.

    Raises InvalidError (P676) where protoc is not installed, UnavailableError (P677) when it cannot
    be run to its end.
    """
    if schema.format != "protobuf":
        return schema
    if find_spec("grpc_tools") is None or find_spec("google.protobuf") is None:
        raise InvalidError(
            "records in Protobuf are read with protoc, which is not installed here",
            code="P676",
            hint='run  pip install "penstock[protobuf]"  on the driver and on executors',
        )
    files = {**_KNOWN, **dict(schema.references), _MAIN: schema.text}
    if not all(map(_is_inside, files)):
        return replace(schema, fault="it refers to a file outside of its registry")
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-proto-") as made:
            return _compiled(schema, files, Path(made))
    except OSError as error:
        raise _unrun(str(error.strerror)) from error


def _compiled(schema: RegisteredSchema, files: Mapping[str, str], place: Path) -> RegisteredSchema:
    serialized = {name: text for name, text in files.items() if _SERIALIZED.fullmatch(text)}
    texts = {name: text for name, text in files.items() if name not in serialized}
    fault = _written(texts, place / _TEXTS)
    if fault:
        return replace(schema, fault=fault)
    if _MAIN in serialized:
        return _compiled_set(schema, serialized, place)
    if any(f'"{name}"' in schema.text for name in serialized):
        return replace(schema, fault="it is text, and imports a serialized file")
    return _run(schema, [f"-I{place / _TEXTS}", _MAIN], place)


def _compiled_set(
    schema: RegisteredSchema, serialized: Mapping[str, str], place: Path
) -> RegisteredSchema:
    """Put serialized files together with the texts that they import.

    protoc reads texts or descriptors, not both at once: texts first. Two FileDescriptorSets, one
    after the other, are one.
    """
    from google.protobuf import descriptor_pb2

    found: dict[str, Any] = {}
    imported = {_MAIN}
    while wanted := sorted((imported & serialized.keys()) - found.keys()):
        for name in wanted:
            file = _file(name, serialized[name])
            if file is None:
                return replace(schema, fault="it is base64, and no serialized file")
            found[name] = file
            imported.update(file.dependency)
    descriptors = b""
    if texts := sorted(imported - found.keys()):
        lines = ['syntax = "proto3";', *(f'import "{name}";' for name in texts)]
        (place / _TEXTS / _ALL).write_text("\n".join(lines), "utf-8")
        among = _run(schema, [f"-I{place / _TEXTS}", _ALL], place)
        if among.fault:
            return among
        descriptors = among.descriptors
    descriptors += descriptor_pb2.FileDescriptorSet(file=found.values()).SerializeToString()
    (place / _SET).write_bytes(descriptors)
    return _run(schema, [f"--descriptor_set_in={place / _SET}", _MAIN], place)


def _file(name: str, text: str) -> Any:
    """Read a serialized file, and set the name that it is imported by; None if it is none."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    except (DecodeError, ValueError):
        return None
    file.name = name
    return file if all(map(_is_inside, file.dependency)) else None


def _written(texts: Mapping[str, str], place: Path) -> str:
    """Write files under their names; return the fault where a name or a text forbids it."""
    try:
        for name, text in texts.items():
            if PurePosixPath(name).parts[: len(_OWN)] == _OWN:
                continue
            file = place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
    except (UnicodeEncodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _NAMES:
            raise
        return "the names or texts of its files cannot be written"
    return ""


def _run(schema: RegisteredSchema, files: Sequence[str], place: Path) -> RegisteredSchema:
    command = [sys.executable, *_PROTOC, "--include_imports"]
    command += [f"--descriptor_set_out={place / _OUT}", *files]
    try:
        ended = subprocess.run(  # noqa: S603  our own interpreter, names of our own
            command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _unrun(f"it did not end within {TIMEOUT_SECONDS:.0f} s") from error
    if ended.returncode == 0:
        return replace(schema, descriptors=(place / _OUT).read_bytes())
    said = ended.stderr.decode("utf-8", "replace").replace(f"{place / _TEXTS}/", "")
    said = _LOGGED.sub("schema: ", said.replace(_MAIN, "schema").replace(_ALL, "schema"))
    errors = [line for line in said.splitlines() if _PLACED.match(line)]
    if not errors:
        raise _unrun(f"it ended with {ended.returncode} and names no place in the schema")
    return replace(schema, fault=f"it does not compile: {errors[0][:_FAULT_CHARS_MAX]}")


def _unrun(reason: str) -> UnavailableError:
    return UnavailableError(
        f"protoc did not finish: {reason}",
        code="P677",
        hint="the machine is overloaded or full, or the schema very large: it is tried again",
    )


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        not path.is_absolute()
        and ".." not in path.parts
        and not _UNSAFE.search(name)
        and path.name != ""
    )
