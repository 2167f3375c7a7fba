"""SQL expressions over what rows were before an update, as far as its event tells it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Field, Schema, Struct
from penstock.rows.convert.batch import Reject
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import FORMER_KEY, RowOptions
from penstock.rows.route.router import Router


@dataclass(eq=False)
class FormerRows(Router):
    """Reads the former row of an update; of other records, and where the event does not tell it,
    the row itself. The options are those of a keyed table.
    """

    def read(
        self, fields: Schema, options: RowOptions, readers: ReaderCache
    ) -> tuple[dict[str, pa.Array], dict[int, Reject]]:
        """Read fields of former rows: they are asked for as if they were the key."""
        now, errors = super().read(fields, options, readers)
        assert options.keyed is not None, "the table has keys"
        keyed = replace(options.keyed, keys=tuple(fields.names))
        options = replace(options, keyed=keyed, change_columns={FORMER_KEY: FORMER_KEY})
        optional = Struct(tuple(replace(field, required=False) for field in fields.fields))
        found, more = super().read(Struct((Field(FORMER_KEY, optional),)), options, readers)
        told = found[FORMER_KEY].is_valid()
        was = dict(zip(fields.names, found[FORMER_KEY].flatten(), strict=True))
        columns = {name: pc.if_else(told, was[name], now[name]) for name in fields.names}
        return columns, errors | more
