"""Names of partitions, as people write them: `day=2026-10-01`, `day=2026-10-01/country=IT`.

Invariants:
- a name is of every partition that has these values, so a part of the fields names many;
- `null` is no value, and `"null"` in quotes is a text; other texts need quotes only where they hold
  a slash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from penstock.core.errors import InvalidError

PartitionValues = Mapping[str, str]
"""Values by the fields of a partitioning as people read them: texts in quotes, `null` for none."""
NULL = "null"
_PART = r'([^=/"]+)=("(?:[^"\\]|\\.)*"|[^/"]*)'
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")


def values_of(text: str) -> PartitionValues:
    """Read the name of a partition. Raises InvalidError (P263)."""
    parts = re.findall(_PART, text) if _NAME.fullmatch(text) else []
    found = dict(parts)
    if not parts or len(found) < len(parts):
        raise InvalidError(
            f"{text[:120]!r} is not the name of a partition",
            code="P263",
            hint="FIELD=VALUE, as in  day=2026-10-01  or  day=2026-10-01/country=IT; a text with a"
            " slash or a quote is in quotes:  'city=\"Rome / Lido\"'",
        )
    return found


def is_of(values: PartitionValues, named: PartitionValues) -> bool:
    """Return whether a partition of some values is one of those that are named."""
    return all(values.get(name) in _readings(value) for name, value in named.items())


def name_of(named: PartitionValues) -> str:
    """Return the name as people write it."""
    return "/".join(f"{name}={value}" for name, value in named.items())


def _readings(value: str) -> tuple[str, ...]:
    """Return what the value of a field reads where a person writes this."""
    return (value,) if value == NULL else (value, json.dumps(value, ensure_ascii=False))
