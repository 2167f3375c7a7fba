"""Where a publication stands in its source, as people read it: by the form of what is kept.

What is kept, and what a seek takes, is the plain data itself (core/positions.py).
"""

from __future__ import annotations

from penstock.core.positions import Position, Scalar, SourcePartition, values_of
from penstock.publishing.table_positions import table_position


def part_words(of: SourcePartition) -> str:
    """Name a part of a source: `orders[0]`, a table, or what a source of one's own calls it."""
    match values_of(of):
        case {"topic": str(topic), "partition": int(number), "topic_id": str()}:
            return f"{topic}[{number}]"
        case values if len(values) == 1:
            (value,) = values.values()
            return _written(value)
        case values:
            return ", ".join(f"{name} {_written(each)}" for name, each in values.items())


def place_words(position: Position) -> str:
    """Say a position: an offset, what is behind of a table or a file, or the members that it has.

    How a file is recognised, and types of SQL, are left out.
    """
    match values_of(position):
        case {"offset": int(offset), **more} if more.keys() <= {"leader_epoch"}:
            return f"{offset:,}"
        case {"uuid": _, "snapshot": _, "sequence": _, "records": _, "digest": _}:
            return table_position(position).words()
        case {"done": True, "size": _, "modified": _}:
            return "its end"
        case {"bytes": int(behind), "digest": _} | {"bytes": int(behind), "modified": _}:
            return f"byte {behind:,}"
        case {"rows": int(behind), "modified": _}:
            return f"row {behind:,}"
        case {"told": int(told)}:
            return f"event {told:,}"
        case values:
            named = {name: each for name, each in values.items() if not name.startswith("(")}
            said = (f"{name} {_written(each)}" for name, each in named.items())
            return ", ".join(said) or "the beginning"


def _written(value: Scalar) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:,}" if isinstance(value, int) else value
