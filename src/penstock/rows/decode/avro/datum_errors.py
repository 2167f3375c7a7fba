"""What may be wrong with a datum that is read in columns: the faults that need no second look."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from penstock.rows.decode.avro.datum_reader import NO_UTF8, cut_off, malformed
from penstock.rows.reject_codes import RejectCode, RejectError


class DatumError(IntEnum):
    """Name the first fault of a record; `UNSURE` is one that `read_datum` has to tell."""

    NONE = 0
    UNSURE = 1
    CUT_OFF = 2
    NEGATIVE = 3
    WIDE = 4
    NOT_UTF8 = 5


CERTAIN: Mapping[DatumError, RejectError] = MappingProxyType(
    {
        DatumError.CUT_OFF: cut_off(),
        DatumError.NEGATIVE: malformed("a length is negative"),
        DatumError.WIDE: malformed("an int of more than 32 bits"),
        DatumError.NOT_UTF8: RejectError(RejectCode.NOT_UTF8, NO_UTF8),
    }
)
"""What `read_datum` raises for a fault."""
