"""Fields that are asked for and that no record of a sample has, as where a name is misspelt.

Records of JSON say their fields; those of other formats have a schema that does, and are not looked
at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa

from penstock.rows.arrow_arrays import validity_of
from penstock.rows.decode.decoder import ReaderCache, decode_values
from penstock.rows.options import RowOptions
from penstock.spec.problems import nearest, shown


@dataclass(frozen=True, slots=True)
class AbsentFields:
    """The fields that none of so many records has, each with one that is like it, or ""."""

    records: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)

    def words(self) -> str:
        """Name them in one line, with what may be meant."""
        return ", ".join(
            f"{shown(name)} (did you mean {shown(near)}?)" if near else shown(name)
            for name, near in self.fields.items()
        )


def absent_fields(
    batches: Iterable[pa.RecordBatch], asked: Iterable[str], options: RowOptions
) -> AbsentFields:
    """Look for fields in batches of records of JSON (as in `ports.log.Fetched`), at their top.

    What is no object is not counted: it is rejected, with its reason.
    """
    there, records, readers = dict[str, None](), 0, ReaderCache()
    for batch in batches:
        valued = np.flatnonzero(validity_of(batch.column("value")))
        for group in decode_values(batch, valued, options, readers, {}).groups:
            found = [each for each in map(_object, group.values.to_pylist()) if each is not None]
            records += len(found)
            there.update(dict.fromkeys(name for each in found for name in each))
    names = [*asked]
    others = [each for each in there if each not in names]
    absent = {name: nearest(name, others) for name in names if name not in there}
    return AbsentFields(records, absent if records else {})


def _object(value: bytes) -> dict[str, object] | None:
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
