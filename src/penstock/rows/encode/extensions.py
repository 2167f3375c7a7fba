"""Takes extension types off columns, at any depth: Arrow has few functions for them.

Invariant: only arrays that hold an extension type are built anew, from their own members. Arrow's
cast is not used for it: of a slice with a member of the type null it makes an array that is shorter
than it says, and to read that is to read other memory.
"""

from __future__ import annotations

import pyarrow as pa


def stored(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without extension types."""
    arrays = [_stored(each) for each in rows.columns]
    if all(new is old for new, old in zip(arrays, rows.columns, strict=True)):
        return rows
    return pa.RecordBatch.from_arrays(arrays, rows.schema.names)


def _stored(values: pa.Array) -> pa.Array:
    if not _is_extended(values.type):
        return values
    match values:
        case pa.ExtensionArray():
            return _stored(values.storage)
        case pa.StructArray():
            members = [_stored(values.field(n)) for n in range(values.type.num_fields)]
            fields = [pa.field(f.name, m.type) for f, m in zip(values.type, members, strict=True)]
            return pa.StructArray.from_arrays(members, fields=fields, mask=values.is_null())
        case pa.MapArray():
            keys, items = _stored(values.keys), _stored(values.items)
            return pa.MapArray.from_arrays(_begins(values), keys, items, mask=values.is_null())
        case pa.FixedSizeListArray():
            size = values.type.list_size
            items = values.values.slice(values.offset * size, len(values) * size)
            return pa.FixedSizeListArray.from_arrays(_stored(items), size, mask=values.is_null())
        case _:
            made = type(values).from_arrays
            return made(_begins(values), _stored(values.values), mask=values.is_null())


def _begins(values: pa.Array) -> pa.Array:
    return pa.array(values.offsets.to_numpy())  # a copy: with a mask they may be no slice


def _is_extended(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return True
    return any(_is_extended(kind.field(n).type) for n in range(kind.num_fields))
