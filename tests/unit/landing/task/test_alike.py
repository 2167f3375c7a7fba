"""Tables that are alike are converted together, and each gets what it would get alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.landing.task.test_sink import batch

from penstock.core.errors import UnavailableError
from penstock.core.schema import Field, Kind, Struct
from penstock.landing.task.alike import by_class, classes_of
from penstock.landing.task.convert import Converted, convert_records
from penstock.landing.task.coordinates import offsets_of
from penstock.landing.task.messages import TableJob, WriteTarget
from penstock.rows.convert.batch import ConvertedBatch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.route.compute import no_functions
from penstock.testing.prepared import part

NUMBERS = Struct((Field("n", Kind.LONG),))
TARGET = WriteTarget("memory", "t")
RECORDS = st.lists(
    st.sampled_from([{"n": 1}, {"n": 2**40}, {"n": "x"}, {}, {"n": 3, "more": {}}, None]),
    min_size=1,
    max_size=12,
)


@dataclass
class Counted:
    """A conversion that counts its calls, and raises where it meets one offset."""

    records: pa.RecordBatch
    raises_at: int = -1
    calls: list[int] = field(default_factory=list)

    def __call__(self, table: TableJob, mask: npt.NDArray[np.bool_]) -> Converted:
        self.calls.append(int(mask.sum()))
        mine = self.records.filter(pa.array(mask))
        if self.raises_at in mine["offset"].to_pylist():
            raise UnavailableError("this one", code="P462", hint="again")
        return convert_records(table, mine, part(0), ReaderCache(), no_functions, lane=0)


def seen(converted: Converted) -> tuple[object, ...]:
    assert isinstance(converted, ConvertedBatch)
    rows, offsets = converted.rows.to_pylist(), converted.offsets.tolist()
    return rows, offsets, converted.rejects, converted.filtered, converted.dropped


def table(**options: object) -> TableJob:
    return TableJob(NUMBERS, RowOptions({}, **options), TARGET)


@given(
    data=st.data(),
    records=RECORDS,
    tables=st.integers(1, 4),
    columns=st.sampled_from(["quarantine", "drop_value"]),
)
def test_a_table_gets_what_it_would_get_alone(data, records, tables, columns) -> None:
    sent = batch(*records)
    raises_at = data.draw(st.sampled_from([-1, *range(len(records))]))
    owns = st.lists(st.booleans(), min_size=len(records), max_size=len(records))
    masks = {f"t{n}": np.array(data.draw(owns)) for n in range(tables)}
    jobs = {name: table(columns=columns) for name in masks}
    together = by_class(masks, classes_of(jobs), offsets_of(sent), Counted(sent, raises_at))

    for name, mask in masks.items():
        alone = partial(Counted(sent, raises_at), jobs[name], mask)
        if mask[raises_at] and raises_at >= 0:
            with pytest.raises(UnavailableError, match="this one"):
                together[name].of(name, jobs[name])
        else:
            assert seen(alone()) == seen(together[name].of(name, jobs[name]))


def test_a_hundred_tables_that_are_alike_are_one_conversion() -> None:
    sent = batch(*({"n": n} for n in range(500)))
    masks = {f"t{n}": np.arange(500) % 100 == n for n in range(100)}
    jobs = {name: table() for name in masks}
    convert = Counted(sent)
    together = by_class(masks, classes_of(jobs), offsets_of(sent), convert)

    rows = [together[name].of(name, jobs[name]).rows["n"].to_pylist() for name in masks]

    assert [500] == convert.calls
    assert [list(range(n, 500, 100)) for n in range(100)] == rows


def test_other_columns_are_another_class() -> None:
    jobs = {"a": table(), "b": table(columns="drop_value"), "c": table()}

    assert {"a": 0, "b": 1, "c": 0} == classes_of(jobs)
