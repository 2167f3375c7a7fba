"""A connector's configuration as Kafka Connect and Strimzi keep it becomes options by name.

Read are properties, a flat JSON object, `{"name": …, "config": {…}}`, and a `KafkaConnector` of
Strimzi as YAML or JSON.

Invariant: an option's name is a name, never a line that was not understood: names are shown, and
such a line may hold a secret. Errors say where it is, and not what it says.

Source: java.util.Properties, `load`; Strimzi, "KafkaConnectorSpec schema reference".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.app.init.migrate.account import Options, unknown, unreadable
from penstock.spec.text import yaml12

_KIND = "KafkaConnector"
_OF_STRIMZI = re.compile(rf"^kind:\s*[\"']?{_KIND}\b", re.MULTILINE)
_DOCUMENTS = re.compile(r"^---.*$", re.MULTILINE)
_OPTION = re.compile(
    r"(?P<name>[^\s=:{}\[\]\"'\\]+)\s*[=:]\s*"
    r"(?P<value>(?:\\u[0-9a-fA-F]{4}|\\[^u]|[^\\])*)"
)
_ENDS = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(?:u(?P<code>.{4})|(?P<sign>.))", re.DOTALL)
_SIGNS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def options_of(text: str) -> Options:
    """Read a configuration, in whichever form it is kept. Raises InvalidError (P165)."""
    if text.lstrip().startswith("{"):
        return _from_json(text)
    if _OF_STRIMZI.search(text):
        return _from_manifests(text)
    return dict(_properties(text))


def _from_json(text: str) -> Options:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise unreadable(f"it is not JSON: {error}") from error
    if data.get("kind") == _KIND:
        return _of_connector(data)
    named = {"name": data["name"]} if "name" in data else {}
    return _texts({**named, **_block(data, "config", data)})


def _from_manifests(text: str) -> Options:
    found = []
    for part in _DOCUMENTS.split(text):
        document = yaml12.read(part)
        if document.faults:
            raise unreadable(f"it is not YAML: {document.faults[0].message}")
        if isinstance(document.data, dict) and document.data.get("kind") == _KIND:
            found.append(document.data)
    if len(found) != 1:
        raise unknown(f"it holds {len(found)} connectors; put the one you mean into a file")
    return _of_connector(found[0])


def _of_connector(data: Mapping[str, Any]) -> Options:
    spec = _block(data, "spec", {})
    outer = {
        "name": _block(data, "metadata", {}).get("name"),
        "connector.class": spec.get("class"),
        "tasks.max": spec.get("tasksMax"),
    }
    return _texts({**outer, **_block(spec, "config", {})})


def _block(data: Mapping[str, Any], name: str, default: Mapping[str, Any]) -> Mapping[str, Any]:
    block = data.get(name, default)
    if not isinstance(block, dict):
        raise unknown(f"its {name} is no object with options")
    return block


def _texts(options: Mapping[str, Any]) -> Options:
    """Return values as Connect takes them: all are text to it, and null is none."""
    return {
        str(key): json.dumps(value) if isinstance(value, bool) else str(value)
        for key, value in options.items()
        if value is not None
    }


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for number, line in _lines(text):
        found = _OPTION.fullmatch(line)
        if found is None:
            raise unknown(f"line {number} is no property, name=value")
        value = _ESCAPE.sub(_meant, found["value"]).encode("utf-16-le", "surrogatepass")
        yield found["name"], value.decode("utf-16-le", "replace").strip()


def _meant(escape: re.Match[str]) -> str:
    if escape["code"]:
        return chr(int(escape["code"], 16))
    return _SIGNS.get(escape["sign"], escape["sign"])


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that say something, with their numbers.

    A line goes on when a backslash ends it that no other one escapes.
    """
    begun, held = 1, ""
    for number, line in enumerate(_ENDS.split(text), 1):
        if not held:
            begun = number
        held += line.lstrip(_BLANKS)
        if held.startswith(("#", "!")):
            held = ""
        elif (len(held) - len(held.rstrip("\\"))) % 2:
            held = held[:-1]
        elif held:
            yield begun, held
            held = ""
    if held:
        yield begun, held
