"""Refuse records for what they are to a table, not for what is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from penstock.rows.codes import MEANINGS, Code
from penstock.rows.convert import Converted, Reject


def refuse(code: Code, offsets: npt.NDArray[np.int64]) -> list[Reject]:
    """Refuse the records of some offsets, in the words of a code."""
    meaning = MEANINGS[code]
    stage, name = str(meaning.stage), str(code)
    return [Reject(offset, stage, name, meaning.fact) for offset in offsets.tolist()]


def nowhere(converted: Converted) -> Converted:
    """Refuse what would land in a table that does not exist and that no record gave columns."""
    empty = replace(converted, rows=converted.rows.slice(0, 0), offsets=converted.offsets[:0])
    return with_rejects(empty, refuse(Code.NO_COLUMNS, converted.offsets))


def with_rejects(converted: Converted, rejects: Sequence[Reject]) -> Converted:
    """Put further rejects among those of a batch, by their offsets."""
    if not rejects:
        return converted
    everyone = sorted((*converted.rejects, *rejects), key=lambda reject: reject.offset)
    return replace(converted, rejects=tuple(everyone))


def counted(rejects: Sequence[Reject]) -> dict[str, int]:
    """Count rejects by code."""
    return dict(Counter(reject.code for reject in rejects))
