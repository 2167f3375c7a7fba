"""Keys of rows, each with the record that says something of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.rows.arrow_arrays import Mask, mask_of


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Columns of a key, and the offset of each row's record."""

    columns: Mapping[str, pa.Array]
    offsets: npt.NDArray[np.int64]

    def filter(self, kept: Mask) -> KeyRows:
        """Return the rows where a mask is true."""
        if kept.all():
            return self
        mask = pa.array(kept)
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        return KeyRows(columns, self.offsets[kept])

    def whole(self) -> KeyRows:
        """Return the rows without a null."""
        kept = np.ones(len(self.offsets), np.bool_)
        for column in self.columns.values():
            kept &= mask_of(column.is_valid())
        return self.filter(kept)

    @classmethod
    def concat(cls, parts: Sequence[KeyRows]) -> KeyRows:
        """Join parts that have the same columns; there is at least one."""
        names = parts[0].columns
        return cls(
            {name: pa.concat_arrays([part.columns[name] for part in parts]) for name in names},
            np.concatenate([part.offsets for part in parts]),
        )
