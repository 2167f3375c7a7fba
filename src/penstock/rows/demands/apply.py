"""Makes the rows of a batch what their table demands, or refuses their records.

Defaults are filled in, then generated columns computed, or compared with what records give; then
lengths and constraints are checked.

Invariants:
- a row that leaves satisfies every demand; a record is refused for the first that it does not, or
  where an expression cannot be computed for it;
- a batch of a table without demands passes untouched.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.demands import Constraint, Default, Demands, Generated, Length
from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.rows.arrow_arrays import Mask, mask_of
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.cast.json_columns import without_text
from penstock.rows.cast.record_cast import REQUIRED
from penstock.rows.convert.batch import ConvertedBatch, Reject
from penstock.rows.demands.evaluate import constant, evaluate, same
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import CODE_INFO, NO_TEXT, RejectCode, RejectError


def require_options(table: str, demands: Demands, options: RowOptions) -> None:
    """Raise InvalidError (P436) where a rule's options leave open what a table demands: when its
    defaults count, or what rows of deleted keys have besides the key.
    """
    if demands and options.soft_columns:
        raise InvalidError(
            f"{table} has constraints or values that it computes, and a soft delete may bring a row"
            " of a key alone, which would not satisfy them",
            code="P436",
            hint="write  deletes: hard  or ignore, or drop them from the table",
        )
    if demands.defaults and not options.fills_defaults:
        raise InvalidError(
            f"{table} has a default for the column {demands.defaults[0].column}, and records do not"
            " tell a value that is absent from null",
            code="P436",
            hint="write  schema: {defaults: absent_or_null}  to fill it in for both",
        )


def given_schema(schema: Schema, demands: Demands) -> Schema:
    """Return the columns as records must give them: none that the table fills is required."""
    if not demands:
        return schema
    filled = demands.filled
    fields = (replace(f, required=f.required and f.name not in filled) for f in schema.fields)
    return Struct(tuple(fields))


def demanded(
    converted: ConvertedBatch, demands: Demands, schema: Schema, options: RowOptions
) -> ConvertedBatch:
    """Return the rows of a batch, of a table's columns in order, as the table demands them."""
    if not demands or not converted.rows.num_rows:
        return converted
    making = _Making(converted.rows, converted.offsets.tolist())
    for default in demands.defaults:
        making.fill(default)
    for generated in demands.generated:
        making.compute(generated)
    for name in sorted(demands.filled):
        if (column := schema.field(name)) is not None:
            making.check_filled(column, options)
    for length in demands.lengths:
        making.check_length(length)
    for constraint in demands.constraints:
        making.check(constraint)
    return making.made(converted, schema)


@dataclass(slots=True)
class _Making:
    """Rows on their way, and the records that were refused so far, by place."""

    rows: pa.RecordBatch
    offsets: list[int]
    refused: dict[int, Reject] = field(default_factory=dict)

    def fill(self, default: Default) -> None:
        column = self.rows.column(default.column)
        if column.null_count:
            self._put(default.column, pc.fill_null(column, constant(default.value)))

    def compute(self, generated: Generated) -> None:
        name, given = generated.column, self.rows.column(generated.column)
        computed = evaluate(generated.value, self.rows)
        self._refuse(computed.failed, RejectCode.NOT_COMPUTED, name)
        if given.null_count < len(given):
            differs = mask_of(given.is_valid()) & ~same(given, computed.values)
            self._refuse(differs, RejectCode.NOT_AS_GENERATED, name)
        self._put(name, computed.values)

    def check_filled(self, column: Field, options: RowOptions) -> None:
        values = self.rows.column(column.name)
        if column.required and values.null_count:
            self._refuse(mask_of(values.is_null()), RejectCode.MISSING, column.name, REQUIRED)
        if column.type is Kind.STRING and column.name in options.not_empty:
            self._refuse(without_text(values), RejectCode.EMPTY_TEXT, column.name, NO_TEXT)

    def check_length(self, length: Length) -> None:
        long = pc.greater(pc.utf8_length(self.rows.column(length.column)), length.characters_max)
        reason = f"the text has more than {length.characters_max} characters"
        self._refuse(mask_of(long.fill_null(False)), RejectCode.TOO_LONG, length.column, reason)

    def check(self, constraint: Constraint) -> None:
        found = evaluate(constraint.condition, self.rows)
        self._refuse(found.failed, RejectCode.NOT_COMPUTED, constraint.name)
        untrue = ~mask_of(found.values.fill_null(False))
        self._refuse(untrue, RejectCode.CONSTRAINT, constraint.name)

    def made(self, converted: ConvertedBatch, schema: Schema) -> ConvertedBatch:
        rows = pa.RecordBatch.from_arrays(self.rows.columns, schema=arrow_schema(schema))
        if not self.refused:
            return replace(converted, rows=rows)
        kept = np.ones(len(self.offsets), np.bool_)
        kept[[*self.refused]] = False
        rejects = sorted((*converted.rejects, *self.refused.values()), key=lambda each: each.offset)
        return replace(
            converted,
            rows=rows.filter(pa.array(kept)),
            offsets=converted.offsets[kept],
            rejects=tuple(rejects),
        )

    def _put(self, name: str, values: pa.Array) -> None:
        place = self.rows.schema.get_field_index(name)
        self.rows = self.rows.set_column(place, self.rows.schema.field(place), values)

    def _refuse(self, mask: Mask | None, code: RejectCode, what: str, reason: str = "") -> None:
        if mask is None or not mask.any():
            return
        info = CODE_INFO[code]
        message = RejectError(code, reason or info.fact, what).message
        for place in np.flatnonzero(mask).tolist():
            if place not in self.refused:
                self.refused[place] = Reject.of(self.offsets[place], code, message)
