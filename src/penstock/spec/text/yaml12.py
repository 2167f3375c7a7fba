"""YAML text becomes plain data with the place of every key and value.

PyYAML scans and composes; scalars are resolved here by the YAML 1.2 core schema, for PyYAML alone
reads 1.1, where `no` is false and `12:30` is 750.

Invariants:
- `read` raises nothing: whatever the text, it gives a document with its faults;
- work is bounded before it is done: characters, depth, and nodes after aliases are expanded;
- keys are unique; no tag builds anything but the core schema's plain data.

Source: YAML 1.2.2, 10.3.2 "Tag Resolution"; merge keys (`<<`) are not part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

import yaml
from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from penstock.spec.problems import PROBLEMS_MAX, KeyPath

CHARS_MAX = 256 * 1024
DEPTH_MAX = 32
NODES_MAX = 50_000
DIGITS_MAX = 40

_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_TAG = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT, _STR = (f"{_TAG}{n}" for n in ("null", "bool", "int", "float", "str"))
_QUOTED_WORD = re.compile(r" '(?!<)[^']{2,}'")
_QUOTES = "put quotes around a text that begins with * & ! % @ or `"
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Span:
    """Zero-based start and end of some text in a file; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the text as YAML, and where."""

    span: Span
    path: KeyPath
    code: str
    message: str
    hint: str = ""


@dataclass(slots=True)
class Document:
    """Plain data, and by path the spans of keys and values and the text of plain scalars.

    `readable` is false when the text could not be composed at all; `data` is then None. `context`
    is the zero-based line where the construct began that could not be read.
    """

    data: Any = None
    readable: bool = True
    context: int | None = None
    faults: list[Fault] = field(default_factory=list)
    keys: dict[KeyPath, Span] = field(default_factory=dict)
    values: dict[KeyPath, Span] = field(default_factory=dict)
    texts: dict[KeyPath, str] = field(default_factory=dict)


def lines_of(text: str) -> list[str]:
    """Split text at every line break that YAML knows."""
    return _LINE_BREAK.split(text)


def read(text: str) -> Document:
    """Read one YAML 1.2 document; never raises."""
    if len(text) > CHARS_MAX:
        return _unreadable("P102", f"the file is larger than {CHARS_MAX // 1024} KiB")
    try:
        node = _Composing(text.removeprefix("\ufeff")).get_single_node()
    except yaml.YAMLError as error:
        return _syntax_fault(text, error)
    except (ValueError, OverflowError):  # PyYAML lets these pass for impossible escapes
        return _unreadable("P101", "an escape in a quoted text is not a character")
    if node is None:
        return _unreadable("P101", "the file is empty", "draft a spec:  penstock init")
    document = Document()
    document.data = _Building(document).value(node, ())
    return document


class _Composing(yaml.BaseLoader):
    """Composes nodes, with limits on depth and number; plain scalars follow the core schema."""

    yaml_implicit_resolvers = {  # noqa: RUF012  the parent's name and kind; the first match wins
        None: [
            (_NULL, re.compile(r"(?:null|Null|NULL|~|)\Z")),
            (_BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")),
            (_INT, re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")),
            (
                _FLOAT,
                re.compile(
                    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
                    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
                ),
            ),
        ]
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self.depth += 1
        self.nodes += 1
        if self.depth > DEPTH_MAX or self.nodes > NODES_MAX:
            too_much = f"deeper than {DEPTH_MAX} levels" if self.depth > DEPTH_MAX else "too large"
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _LimitError(None, None, f"the document is {too_much}", mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _LimitError(yaml.MarkedYAMLError):
    """The document goes beyond a limit."""


class _Building:
    """Turns nodes into plain data, once per use of an anchor."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.above: list[Node] = []
        self.count = 0

    def value(self, node: Node, path: KeyPath) -> Any:
        """Return the plain data of a node and note its place; what is wrong becomes None."""
        self.count += 1
        if self.count > NODES_MAX:
            if self.count == NODES_MAX + 1:
                self.fault(node, path, "P102", f"aliases make more than {NODES_MAX} values")
            return None
        self.document.values[path] = _span(node)
        if any(node is other for other in self.above):
            return self.fault(node, path, "P102", "an alias is inside the node it names")
        if len(self.above) > DEPTH_MAX:
            return self.fault(node, path, "P102", f"deeper than {DEPTH_MAX} levels")
        self.above.append(node)
        result = self.built(node, path)
        self.above.pop()
        return result

    def built(self, node: Node, path: KeyPath) -> Any:
        tag = str(node.tag)
        match node:
            case MappingNode() if tag == f"{_TAG}map":
                return dict(self.members(node, path))
            case SequenceNode() if tag == f"{_TAG}seq":
                return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
            case ScalarNode():
                return self.scalar(node, path)
            case _:
                return self.unknown_tag(node, path)

    def unknown_tag(self, node: Node, path: KeyPath) -> None:
        """Refuse a tag; it is not quoted: it may be an unquoted secret."""
        self.fault(node, path, "P101", "this tag is not supported", hint=_QUOTES)

    def members(self, node: MappingNode, path: KeyPath) -> Iterator[tuple[Any, Any]]:
        """Yield unique keys with their values; keys are text or whole numbers."""
        seen: dict[Any, int] = {}
        for key_node, value_node in node.value:
            key = self.key(key_node, path)
            if key is None:
                continue
            first = seen.setdefault(key, key_node.start_mark.line)
            here = (*path, key)
            if here in self.document.keys:
                self.fault(
                    key_node,
                    here,
                    "P103",
                    f"this setting appears twice, first on line {first + 1}",
                    hint="keep one of them",
                )
                self.value(value_node, (*here, "again"))  # so that its secrets are known
                continue
            self.document.keys[here] = _span(key_node)
            yield key, self.value(value_node, here)

    def key(self, node: Node, path: KeyPath) -> str | int | None:
        if isinstance(node, ScalarNode):
            if node.tag == _STR and not _SURROGATE.search(node.value):
                return str(node.value)
            if node.tag == _INT and (found := _number(_INT, node.value)) is not None:
                return int(found)
        self.fault(
            node, path, "P101", "a setting's name must be text", hint="put quotes around the name"
        )
        return None

    def scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        text, tag = str(node.value), str(node.tag)
        if _SURROGATE.search(text):
            return self.fault(node, path, "P101", "the text has half of a surrogate pair")
        self.document.texts[path] = text
        match tag:
            case "tag:yaml.org,2002:str":
                return text
            case "tag:yaml.org,2002:null":
                return None
            case "tag:yaml.org,2002:bool" if text.lower() in {"true", "false"}:
                return text.lower() == "true"
            case "tag:yaml.org,2002:int" | "tag:yaml.org,2002:float":
                if (found := _number(tag, text)) is not None:
                    return found
                return self.fault(node, path, "P101", "this is not a number in range")
            case _:
                return self.unknown_tag(node, path)

    def fault(self, node: Node, path: KeyPath, code: str, message: str, *, hint: str = "") -> None:
        """Note a fault at a node, as long as people would read on."""
        if len(self.document.faults) < PROBLEMS_MAX:
            self.document.faults.append(Fault(_span(node), path, code, message, hint))


def _number(tag: str, text: str) -> int | float | None:
    if len(text) > DIGITS_MAX:
        return None
    try:
        if tag == _FLOAT:
            special = text.lower().removeprefix("+").replace(".inf", "inf").replace(".nan", "nan")
            return float(special)
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text, base)
    except ValueError:
        return None


def _span(node: Node) -> Span:
    start, end = node.start_mark, node.end_mark
    return Span(start.line, start.column, end.line, end.column)


def _unreadable(
    code: str, message: str, hint: str = "", at: Mark | None = None, since: Mark | None = None
) -> Document:
    line, column = (at.line, at.column) if at else (0, 0)
    fault = Fault(Span(line, column, line, column + 1), (), code, message, hint)
    return Document(readable=False, context=since.line if since else None, faults=[fault])


def _syntax_fault(text: str, error: yaml.YAMLError) -> Document:
    if isinstance(error, ReaderError):
        *before, last = lines_of(text[: error.position])
        message = f"the character U+{error.character:04X} is not allowed in YAML"
        return _unreadable("P101", message, at=Mark("", 0, len(before), len(last), None, 0))
    marked = cast("yaml.MarkedYAMLError", error)
    if isinstance(error, _LimitError):
        return _unreadable("P102", str(marked.problem), at=marked.problem_mark)
    since = marked.context_mark
    context = f", {marked.context}" if marked.context else ""
    if context and since:
        context += f" that begins on line {since.line + 1}"
    message = f"{marked.problem or 'this cannot be read as YAML'}{context}"
    # On one line, without words of the file, which may be secret.
    cause = " ".join(_QUOTED_WORD.sub("", message).split())
    at = marked.problem_mark or since
    line = next(islice(lines_of(text), at.line if at else 0, None), "")
    return _unreadable("P101", cause, _syntax_hint(line, message), at, since)


def _syntax_hint(line: str, message: str) -> str:
    if "${" in line and "{" in line.replace("${", ""):
        return 'put quotes around a reference inside of { }: "${env:X}"'
    if "'\\t'" in message:
        return "indent with blanks, not tabs"
    if any(word in message for word in ("alias", "anchor", "tag", "start any token")):
        return _QUOTES
    if "mapping values are not allowed" in message:
        return "put quotes around a text that holds ': '"
    if "block mapping" in message or "block collection" in message:
        return "settings of one block are in the same column"
    return ""
