"""Tables that are alike are converted together, and each gets what it would get alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
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
TOMBSTONE = "a record without a value"
RECORDS = st.lists(
    st.sampled_from(
        [{"n": 1}, {"n": 2**40}, {"n": "x"}, {}, {"n": 3, "more": {}}, None, TOMBSTONE]
    ),
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


def sent_as(*records: object) -> pa.RecordBatch:
    sent = batch(*records)
    empty = pa.array([each == TOMBSTONE for each in records])
    values = pc.if_else(empty, pa.scalar(None, pa.binary()), sent["value"])
    return sent.set_column(sent.schema.get_field_index("value"), "value", values)


def seen(converted: Converted) -> tuple[object, ...]:
    assert isinstance(converted, ConvertedBatch)
    rows, offsets = converted.rows.to_pylist(), converted.offsets.tolist()
    return rows, offsets, converted.rejects, converted.filtered


def table(**options: object) -> TableJob:
    return TableJob(NUMBERS, RowOptions({}, **options), TARGET)


@given(
    data=st.data(),
    records=RECORDS,
    tables=st.integers(1, 4),
    columns=st.sampled_from(["quarantine", "drop_value"]),
    tombstones=st.sampled_from(["quarantine", "skip"]),
)
def test_a_table_gets_what_it_would_get_alone(data, records, tables, columns, tombstones) -> None:
    sent = sent_as(*records)
    raises_at = data.draw(st.sampled_from([-1, *range(len(records))]))
    owns = st.lists(st.booleans(), min_size=len(records), max_size=len(records))
    masks = {f"t{n}": np.array(data.draw(owns)) for n in range(tables)}
    unlike = data.draw(st.sets(st.sampled_from([*masks])))
    usual = {"columns": columns, "tombstones": tombstones}
    other = {**usual, "types": "drop_value"}
    jobs = {name: table(**(other if name in unlike else usual)) for name in masks}
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


def test_what_rows_leave_out_and_what_is_filtered_is_converted_once() -> None:
    sent = sent_as(
        {"n": 1, "more": 1}, TOMBSTONE, {"n": "x"}, {"n": 2}, TOMBSTONE, {"n": 3, "more": 2}
    )
    masks = {f"t{n}": np.arange(6) % 3 == n for n in range(3)}
    jobs = {name: table(columns="drop_value", tombstones="skip") for name in masks}
    convert = Counted(sent)
    together = by_class(masks, classes_of(jobs), offsets_of(sent), convert)

    got = [together[name].of(name, jobs[name]) for name in masks]

    assert [6] == convert.calls
    assert [[1, 2], [], [3]] == [each.rows["n"].to_pylist() for each in got]
    assert [{}, {"tombstone": 2}, {}] == [each.filtered for each in got]
    assert [0, 0, 1] == [len(each.rejects) for each in got]


def test_other_columns_are_another_class() -> None:
    jobs = {"a": table(), "b": table(columns="drop_value"), "c": table()}

    assert {"a": 0, "b": 1, "c": 0} == classes_of(jobs)
