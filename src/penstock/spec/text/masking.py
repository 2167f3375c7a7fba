"""Lines of a spec as they may be shown: secrets become stars of the same length.

Invariants: a masked line is as long as the line, so columns still fit; where the text could be
composed, exactly the secret values are masked; where not, more is masked rather than less.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.spec.secrets import is_literal, is_secret_name, may_hold_secret, secret_parts
from penstock.spec.text.yaml12 import Document

_SETTING = re.compile(r"(?<![\w.-])(?P<name>[\w.-]++)[\"']?\s*+:(?=\s|$)")


def masked(lines: Sequence[str], document: Document) -> list[str]:
    """Mask the secrets of a document that was composed."""
    shown = [list(line) for line in lines]
    for path, text in document.texts.items():
        if (may_hold_secret(path) and is_literal(text)) or any(secret_parts(text)):
            span = document.values[path]
            for number in range(span.line, min(span.end_line + 1, len(lines))):
                start = span.column if number == span.line else 0
                stop = span.end_column if number == span.end_line else len(lines[number])
                shown[number][start:stop] = _stars(lines[number][start:stop])
    return ["".join(line) for line in shown]


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
            result.append(_stars(line))
            continue
        indent = None
        starts = [each.end() for each in _SETTING.finditer(line) if is_secret_name(each["name"])]
        start = min([*starts, *(start for start, _ in secret_parts(line))], default=None)
        if start is not None:
            indent = -1 if number == context else depth
        result.append(line if start is None else line[:start] + _stars(line[start:]))
    return result


def _stars(text: str) -> str:
    return "".join(char if char.isspace() else "*" for char in text)
