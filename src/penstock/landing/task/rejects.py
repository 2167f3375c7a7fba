"""Refuse records for what they are to a table, not for what is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from penstock.core.errors import InvalidError
from penstock.rows.convert.batch import ConvertedBatch, Reject
from penstock.rows.options import Policy, RowOptions
from penstock.rows.reject_codes import CODE_INFO, OF_TYPES, RejectCode, RejectError

_OF_TYPES = OF_TYPES | {RejectCode.MISSING}


def rejects_of(code: RejectCode, offsets: npt.NDArray[np.int64], path: str = "") -> list[Reject]:
    """Refuse the records of some offsets, for a column or as a whole, in the words of a code."""
    meaning = CODE_INFO[code]
    misfit = RejectError(code, meaning.fact, path)
    stage, name, message = str(meaning.stage), str(code), misfit.message
    return [Reject(offset, stage, name, message) for offset in offsets.tolist()]


def reject_without_columns(converted: ConvertedBatch) -> ConvertedBatch:
    """Refuse what would land in a table that does not exist and that no record gave columns."""
    empty = replace(converted, rows=converted.rows.slice(0, 0), offsets=converted.offsets[:0])
    return merge_rejects(empty, rejects_of(RejectCode.NO_COLUMNS, converted.offsets))


def merge_rejects(converted: ConvertedBatch, rejects: Sequence[Reject]) -> ConvertedBatch:
    """Put further rejects among those of a batch, by their offsets."""
    if not rejects:
        return converted
    everyone = sorted((*converted.rejects, *rejects), key=lambda reject: reject.offset)
    return replace(converted, rejects=tuple(everyone))


def count_by_code(rejects: Sequence[Reject]) -> dict[str, int]:
    """Count rejects by code."""
    return dict(Counter(reject.code for reject in rejects))


def policy_for(reject: Reject, options: RowOptions) -> Policy:
    """Return what is to be done about a refused record."""
    if reject.code == RejectCode.UNKNOWN_FIELD:
        return options.columns
    return options.types if reject.code in _OF_TYPES else "quarantine"


def frozen(name: str, reject: Reject) -> InvalidError:
    """Build the error for a table that accepts no record that does not fit."""
    return InvalidError(
        f"{name} is frozen, and a record does not fit: {reject.message}",
        code="P467",
        hint="change the table, or set  schema.columns  or  schema.types  to something else",
    )
