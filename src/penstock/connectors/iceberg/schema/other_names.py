"""The names that a table's name mapping gives its columns beside their own.

Source: Apache Iceberg table specification, "Column Projection", "Name Mapping Serialization".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import pydantic
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from penstock.core.column_paths import joined_path

Names = Mapping[str, tuple[str, ...]]


def other_names_of(metadata: TableMetadata) -> dict[str, Names] | None:
    """Return the columns of each name that is not, or not only, a column's own, by the path of the
    struct that they are in; None where the table has no name mapping, or none that can be read.
    """
    try:
        mapping = metadata.name_mapping()
    except (ValueError, pydantic.ValidationError):
        return None
    if mapping is None:
        return None
    known = {each.field_id: each.names for each in _all(mapping.root)}
    return {
        path: names for path, names in _below(metadata.schema().as_struct(), "", known) if names
    }


def _all(fields: Iterable[MappedField]) -> Iterator[MappedField]:
    for each in fields:
        yield each
        yield from _all(each.fields)


def _below(
    kind: IcebergType, path: str, known: Mapping[int | None, list[str]]
) -> Iterator[tuple[str, Names]]:
    match kind:
        case StructType():
            columns: dict[str, list[str]] = defaultdict(list)
            for field in kind.fields:
                for name in {field.name, *known.get(field.field_id, ())}:
                    columns[name].append(field.name)
                yield from _below(field.field_type, joined_path(path, field.name), known)
            yield path, {name: (*of,) for name, of in columns.items() if of != [name]}
        case ListType():
            yield from _below(kind.element_type, f"{path}[]", known)
        case MapType():
            yield from _below(kind.value_type, f"{path}{{}}", known)
