"""Lines of a spec as they may be shown: secrets become stars of the same length.

Invariants: a masked line is as long as the line, so columns still fit; where the text could be
composed, exactly the secret values are masked; where not, more is masked rather than less.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.spec.problems import KeyPath
from penstock.spec.secrets import is_literal, is_secret_name, may_hold_secret, secret_parts
from penstock.spec.text.yaml12 import Document, Span

_SETTING = re.compile(r"(?<![\w.-])(?P<name>[\w.-]++)[\"']?\s*+:(?=\s|$)")


def masked(lines: Sequence[str], document: Document) -> list[str]:
    """Mask the secrets of a document that was composed."""
    changed: dict[int, list[str]] = {}
    for path, text in document.texts.items():
        if _is_secret(path, text):
            _mask(lines, changed, document.values[path])
    return ["".join(changed.get(number, line)) for number, line in enumerate(lines)]


def masked_by_text(lines: Sequence[str], context: int | None = None) -> list[str]:
    """Mask whatever follows the name of a secret, also over more indented lines.

    `context` is the zero-based line of a construct without end: when it holds a secret, all that
    follows is masked.
    """
    result: list[str] = []
    indent: int | None = None
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if indent is not None and (depth > indent or not line.strip()):
            result.append(_stars(line, 0))
            continue
        indent = None
        start = _secret_start(line)
        if start is not None:
            indent = -1 if number == context else depth
        result.append(line if start is None else _stars(line, start))
    return result


def _secret_start(line: str) -> int | None:
    """Find where a line's first secret may begin."""
    starts = [found.end() for found in _SETTING.finditer(line) if is_secret_name(found["name"])]
    return min([*starts, *(start for start, _ in secret_parts(line))], default=None)


def _is_secret(path: KeyPath, text: str) -> bool:
    return (may_hold_secret(path) and is_literal(text)) or bool(list(secret_parts(text)))


def _mask(lines: Sequence[str], changed: dict[int, list[str]], span: Span) -> None:
    for number in range(span.line, min(span.end_line + 1, len(lines))):
        line = changed.setdefault(number, list(lines[number]))
        start = span.column if number == span.line else 0
        stop = span.end_column if number == span.end_line else len(line)
        line[start:stop] = _stars("".join(line[start:stop]), 0)


def _stars(line: str, start: int) -> str:
    return line[:start] + "".join(char if char.isspace() else "*" for char in line[start:])
