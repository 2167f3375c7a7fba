"""Storms of bad records: what columns can tell of is not left to the converter of single records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.schema import Field, Kind, Struct
from penstock.rows.blaming import refuse_alike
from penstock.rows.codes import Code
from penstock.rows.learning import sample
from penstock.rows.options import RowOptions

SCHEMA = Struct((Field("id", Kind.LONG), Field("ok", Kind.BOOLEAN), Field("at", Kind.DATE)))
FAULTS = {
    b'{"id":1,"ok":"yes"}': Code.UNREADABLE,
    b'{"id":99999999999999999999,"ok":true}': Code.OUT_OF_RANGE,
    b'{"id":1,"at":"26-01-01"}': Code.UNREADABLE,
    b'{"id":1,"colour":"red"}': Code.UNKNOWN_FIELD,
}
BROKEN = b'{"id":1,"ok":'


@pytest.mark.parametrize("rounds", [96, 100, 768])
def test_faults_that_come_in_turn_are_told_by_columns(rounds: int) -> None:
    kinds = [*FAULTS, BROKEN]
    values = pa.array(kinds * rounds, pa.binary())

    misfits, rest = refuse_alike(values, np.arange(len(values)), SCHEMA, RowOptions({}))

    assert [BROKEN] * rounds == [values[at].as_py() for at in rest.tolist()]
    expected = {
        at: FAULTS[kinds[at % len(kinds)]]
        for at in range(len(values))
        if kinds[at % len(kinds)] != BROKEN
    }
    assert expected == {at: misfit.code for at, misfit in misfits.items()}


@pytest.mark.parametrize("rhythm", range(2, 16))
@pytest.mark.parametrize("count", [65, 100, 1000, 1024, 49_152, 50_000])
def test_a_sample_meets_all_kinds_that_come_in_turn(rhythm: int, count: int) -> None:
    places = sample(count)

    assert set(range(rhythm)) == {place % rhythm for place in places}
    assert all(0 <= place < count for place in places)
    assert (64, True) == (len(places), places[-1] > 0.8 * count)


def test_a_sample_of_few_is_all_of_them() -> None:
    assert [[], [0], [0, 1, 2]] == [sample(count) for count in (0, 1, 3)]
