"""Whatever a record holds: it lands with the partition values that PyIceberg computes, or is refused.

Every transform of every type is in one table, so that an example costs one commit. A planted
value is one for which a transform, a label, a description or a manifest may raise: the ends of each
type, texts of 64 KiB, of characters beyond the first plane, of what no file name may hold.
"""

from __future__ import annotations

import datetime as dt
import operator
import tempfile
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal as Number
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.integration.iceberg.conftest import Lake

from penstock.connectors.iceberg.schema.types import file_schema
from penstock.core.schema import Decimal, Field, Fixed, Kind, Struct
from penstock.landing.task.convert import within_partition_bounds
from penstock.rows.convert.batch import ConvertedBatch
from penstock.testing.prepared import prepared

Partition = tuple[Any, ...]
EPOCH = dt.date(1970, 1, 1).toordinal()
DAYS = (1 - EPOCH, dt.date(9999, 12, 31).toordinal() - EPOCH)
DAY_US = 86_400_000_000
STAMPS = (DAYS[0] * DAY_US, (DAYS[1] + 1) * DAY_US - 1)


def whole(least: int, greatest: int) -> st.SearchStrategy[int]:
    """Return numbers of a range, its ends and what is near zero often."""
    near = [least, least + 1, least + 9, -1, 0, 1, greatest - 1, greatest]
    return st.sampled_from([each for each in near if least <= each <= greatest]) | st.integers(
        least, greatest
    )


def exact(precision: int, scale: int) -> st.SearchStrategy[Number]:
    most = 10**precision - 1
    return whole(-most, most).map(lambda n: Number((n < 0, Number(n).as_tuple().digits, -scale)))


TEXTS = [
    "",
    "a" * 65536,
    "\U0010ffff" * 3,
    "a\U0001f600b\u0301",
    "../..",
    "a/b=c%2F\x00\x1f",
    "\ud7ff",
]
HELD = {
    "id": (Kind.LONG, whole(-(2**63), 2**63 - 1)),
    "small": (Kind.INT, whole(-(2**31), 2**31 - 1)),
    "price": (Decimal(9, 2), exact(9, 2)),
    "big": (Decimal(38, 10), exact(38, 10)),
    "name": (
        Kind.STRING,
        st.integers(0, len(TEXTS) - 1).map(lambda n: TEXTS[n]) | st.text(max_size=9),
    ),
    "raw": (
        Kind.BINARY,
        st.integers(0, 1).map(lambda n: n * b"\xff" * 65536) | st.binary(max_size=9),
    ),
    "key": (
        Kind.UUID,
        st.sampled_from([bytes(16), b"\xff" * 16]) | st.binary(min_size=16, max_size=16),
    ),
    "code": (Fixed(3), st.binary(min_size=3, max_size=3)),
    "on": (Kind.DATE, whole(*DAYS)),
    "at": (Kind.TIME, whole(0, DAY_US - 1)),
    "local": (Kind.TIMESTAMP, whole(*STAMPS)),
    "ts": (Kind.TIMESTAMPTZ, whole(*STAMPS)),
    # PyIceberg reads doubles as 32 bits: those that are none have tests of their own.
    "f": (Kind.DOUBLE, st.sampled_from([0.0, -0.0]) | st.floats(allow_nan=False, width=32)),
    "g": (Kind.FLOAT, st.sampled_from([0.0, -0.0]) | st.floats(allow_nan=False, width=32)),
    "ok": (Kind.BOOLEAN, st.booleans()),
    "zip": (Kind.INT, whole(-(2**31), 2**31 - 1)),
}
ROWS = Struct(
    (
        *(Field(name, kind) for name, (kind, _) in HELD.items() if name != "zip"),
        Field("place", Struct((Field("zip", Kind.INT),))),
    )
)
BUCKETS = ["id", "small", "price", "big", "name", "raw", "key", "code", "on", "at", "local", "ts"]
BY = (
    *(f"bucket(7, {name})" for name in BUCKETS),
    "truncate(10, id)",
    "truncate(7, small)",
    "truncate(10, price)",
    "truncate(999999999, big)",
    "truncate(3, name)",
    "truncate(2, raw)",
    "truncate(10, place.zip)",
    *(f"{unit}(ts)" for unit in ("year", "month", "day", "hour")),
    *(f"{unit}(on)" for unit in ("year", "month", "day")),
    *(name for name in HELD if name not in {"zip", "key", "code"}),
)
BEYOND = {"id": -(2**63), "small": -(2**31), "zip": -(2**31), "price": 1 - 10**9, "big": 1 - 10**38}
"""The lowest value of each type, unscaled."""
WIDTHS = {"id": 10, "small": 7, "zip": 10, "price": 10, "big": 999_999_999}


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    with tempfile.TemporaryDirectory() as place:
        yield Lake(Path(place))


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Return rows as our readers would; their values are in Iceberg's internal form."""
    schema = file_schema_of()
    arrays = []
    for field in schema:
        if field.name == "place":
            values = pa.array([row["zip"] for row in rows], pa.int32())
            arrays.append(pa.StructArray.from_arrays([values], fields=list(field.type)))
        else:
            kind = pa.binary(16) if field.name == "key" else field.type
            arrays.append(pa.array([row[field.name] for row in rows], kind))
    plain = [f.with_type(pa.binary(16)) if f.name == "key" else f for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(plain))


def file_schema_of() -> pa.Schema:
    return _SCHEMAS[0]


_SCHEMAS: list[pa.Schema] = []


def has_partitions(row: dict[str, Any]) -> bool:
    """Return by arithmetic alone whether truncation keeps a row's numbers in their types."""
    for name, width in WIDTHS.items():
        value = row[name]
        if value is None:
            continue
        unscaled = (
            int(value.scaleb(2 if name == "price" else 10)) if isinstance(value, Number) else value
        )
        if unscaled // width * width < BEYOND[name]:
            return False
    return True


LOWEST = dict.fromkeys(HELD) | {
    "id": -(2**63),
    "small": -(2**31),
    "zip": -(2**31),
    "price": Number("-9999999.99"),
    "big": Number("-9999999999999999999999999999.9999999999"),
}
ALONE = [dict.fromkeys(HELD) | {name: value} for name, value in LOWEST.items() if value is not None]
ROW = st.fixed_dictionaries({name: st.none() | value for name, (_, value) in HELD.items()})


@given(rows=st.lists(ROW, min_size=1, max_size=6))
@example(rows=[LOWEST, *ALONE])
@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_rows_land_with_the_librarys_values_or_are_refused(
    lake: Lake, rows: list[dict[str, Any]]
) -> None:
    name = f"bronze.orders_{len(_NAMES)}"
    _NAMES.append(name)
    table = lake.create(ROWS, BY, name=name)
    _SCHEMAS[:] = [file_schema(lake.foreign(name).schema())]
    state = table.state(lake.chain)
    batch = batch_of(rows)
    offsets = np.arange(len(rows))
    fitting = within_partition_bounds(ConvertedBatch(batch, offsets, (), {}, {}), state.least)
    fits = [offset for offset, row in enumerate(rows) if has_partitions(row)]
    assert fits == fitting.offsets.tolist()
    assert {"P346"} >= {reject.code for reject in fitting.rejects}
    assert len(rows) == len(fits) + len(fitting.rejects)
    if not fits:
        return

    files = lake.write(state, fitting.rows)
    ranges = {0: (0, len(rows))}
    commit = prepared(lake.chain, ranges, files=files, uuid=state.uuid, schema_id=state.schema_id)
    table.commit(state, commit, retain=25)
    foreign = lake.foreign(name)
    wanted = Counter(partition_of(foreign, rows[offset]) for offset in fits)
    got: Counter[Partition] = Counter()
    for task in foreign.scan().plan_files():
        held = [task.file.partition[place] for place in range(len(BY))]
        got[values_of(held)] += task.file.record_count
    lacking, more = wanted - got, got - wanted
    assert [] == [*differences(lacking, more)]
    assert len(fits) == foreign.scan().to_arrow().num_rows


_NAMES: list[str] = []


def partition_of(foreign: Any, row: dict[str, Any]) -> Partition:
    """Compute a row's partition as PyIceberg does, one value at a time."""
    held = []
    for field in foreign.spec().fields:
        source = foreign.schema().find_field(field.source_id)
        held.append(field.transform.transform(source.field_type)(row[source.name]))
    return values_of(held)


def values_of(partition: list[Any]) -> Partition:
    return tuple(_plain(each) for each in partition)


def differences(
    lacking: Counter[Partition], more: Counter[Partition]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the transforms, and their values, that two sets of partitions differ in."""
    for wanted in lacking:
        nearest = min(more, key=lambda got: sum(map(operator.ne, wanted, got)), default=())
        yield "a partition lacks", wanted[:0], nearest[:0]
        for text, one, other in zip(BY, wanted, nearest, strict=False):
            if one != other:
                yield text, one, other


def _plain(value: Any) -> Any:
    """Return bytes for a UUID, and zero for minus zero: the two share a partition."""
    if isinstance(value, UUID):
        return value.bytes
    return value + 0.0 if isinstance(value, float) else value
