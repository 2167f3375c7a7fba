"""The leaf columns of a file as Parquet names them, and those that a file says more or less of.

Invariants:
- a column is left out only by its own path; all others are written as pyarrow does by itself;
- columns of UUIDs have neither statistics nor a dictionary: Parquet and Iceberg order them as
  unsigned bytes, but Iceberg's Java library compares them as two signed numbers, and skips files
  and row groups by either.

Source: Parquet format, "Lists", "Maps"; docs/design/0232.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Literal

import pyarrow as pa

_BYTES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)


@lru_cache(maxsize=64)
def uuids_of(schema: pa.Schema) -> frozenset[str]:
    """Name the leaf columns that hold UUIDs."""
    return frozenset(path for path, type_ in _leaves_of(schema) if type_ == pa.uuid())


def bytes_of(schema: pa.Schema) -> list[str]:
    """Name the leaf columns that Parquet keeps as bytes: texts among them."""
    return [path for path, type_ in _leaves_of(schema) if any(is_one(type_) for is_one in _BYTES)]


def without(
    chosen: Literal[True] | list[str], left_out: AbstractSet[str], schema: pa.Schema
) -> Literal[True] | list[str]:
    """Take paths from a choice of leaf columns as pyarrow has it, in which True means all."""
    if not left_out:
        return chosen
    paths = [path for path, _ in _leaves_of(schema)] if chosen is True else chosen
    return [path for path in paths if path not in left_out]


def _leaves_of(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    for field in schema:
        yield from _leaves(field.name, field.type)


def _leaves(path: str, type_: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(type_):
        for field in type_:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(type_):
        yield from _leaves(f"{path}.key_value.key", type_.key_type)
        yield from _leaves(f"{path}.key_value.value", type_.item_type)
    elif pa.types.is_list(type_):
        yield from _leaves(f"{path}.list.element", type_.value_type)
    else:
        yield path, type_
