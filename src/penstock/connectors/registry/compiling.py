"""The text of a Protobuf schema becomes descriptors: protoc, once for each schema.

Invariants:
- protoc runs in a process of its own, which no text can take ours with;
- names of files stay in a directory that is removed, and replace none of protoc's own library;
- a text that does not compile is told as a fault of the schema; what this machine lacks is none.
"""

from __future__ import annotations

import errno
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

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
"""What .NET clients register; a text of the language has signs that base64 has not."""
_UNWRITABLE = "the names or texts of its files cannot be written"
_PLACED = re.compile(r"(?:[^ ]+:\d+:\d+|schema): (?!warning)")
"""What begins a line of protoc's that is an error in a file, and no warning of its libraries."""
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
"""What a registry knows by itself, and does not name as a reference."""


def compiled(schema: RegisteredSchema) -> RegisteredSchema:
    """Give a Protobuf schema with its descriptors, or with its fault; another as it is.

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
    texts = {**_KNOWN, **dict(schema.references), _MAIN: schema.text}
    if not all(map(_is_inside, texts)):
        return replace(schema, fault="it refers to a file outside of its registry")
    if any(_SERIALIZED.fullmatch(text) for text in texts.values()):
        return replace(schema, fault="it is a serialized descriptor in base64, and no text")
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-proto-") as made:
            place = Path(made)
            fault = _written(texts, place / _TEXTS)
            return replace(schema, fault=fault) if fault else _run(schema, place)
    except OSError as error:
        raise _unrun(str(error.strerror)) from error


def _written(texts: Mapping[str, str], place: Path) -> str:
    """Write files under their names; tell the fault where a name or a text forbids it."""
    try:
        for name, text in texts.items():
            if PurePosixPath(name).parts[: len(_OWN)] == _OWN:
                continue
            file = place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
    except UnicodeEncodeError:
        return _UNWRITABLE
    except OSError as error:
        if error.errno not in _NAMES:
            raise
        return _UNWRITABLE
    return ""


def _run(schema: RegisteredSchema, place: Path) -> RegisteredSchema:
    command = [sys.executable, *_PROTOC, f"-I{place / _TEXTS}", "--include_imports"]
    command += [f"--descriptor_set_out={place / _OUT}", _MAIN]
    try:
        ended = subprocess.run(  # noqa: S603  our own interpreter, names of our own
            command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _unrun(f"it did not end within {TIMEOUT_SECONDS:.0f} s") from error
    if ended.returncode == 0:
        return replace(schema, descriptors=(place / _OUT).read_bytes())
    said = ended.stderr.decode("utf-8", "replace").replace(f"{place / _TEXTS}/", "")
    said = said.replace(_MAIN, "schema")
    errors = [line for line in said.splitlines() if _PLACED.match(line)]
    if not errors:
        raise _unrun(f"it ended with {ended.returncode} and names no place in the schema")
    return replace(schema, fault=f"it does not compile: {errors[0][:_FAULT_CHARS_MAX]}")


def _unrun(reason: str) -> UnavailableError:
    return UnavailableError(
        f"protoc could not be run to its end: {reason}",
        code="P677",
        hint="the machine is overloaded or full, or the schema very large: it is tried again",
    )


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        not path.is_absolute() and ".." not in path.parts and "\0" not in name and path.name != ""
    )
