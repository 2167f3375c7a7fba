"""Metadata against contents, without files: each kind of fault, and what is no fault."""

from dataclasses import replace
from decimal import Decimal
from math import nan

import pytest

from penstock.core.schema import Kind
from penstock.core.statistics import (
    ColumnContents,
    ColumnStatistics,
    Fault,
    FileContents,
    FileStatistics,
    Leaf,
    PartitionValue,
    mismatches,
    shown,
)

LEAF = Leaf("amount", ("amount",), 1, None)
RIGHT = ColumnStatistics(LEAF, values=10, nulls=2, nans=1, lower=-3, upper=7)
HELD = ColumnContents(values=10, nulls=2, nans=1, least=-3, greatest=7)
PARTITION = PartitionValue("amount", LEAF, 4, derived=lambda column: column)


def stated(column=RIGHT, **given):
    return FileStatistics("f", 10, 100, (column,), (PARTITION,), **given)


def held(column=HELD, **given):
    plain = {
        "records": 10,
        "size_bytes": 100,
        "columns": {LEAF: column},
        "partition": {"amount": (4,)},
    }
    return FileContents(**{**plain, **given})


def test_metadata_that_is_right_has_no_mismatch():
    assert [] == mismatches(stated(), held())


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"values": 11}, Fault.VALUES),
        ({"nulls": 1}, Fault.NULLS),
        ({"nulls": 3}, Fault.NULLS),
        ({"nans": 0}, Fault.NANS),
        ({"nans": None}, Fault.NANS),
        ({"lower": -2}, Fault.LOWER),
        ({"upper": 6}, Fault.UPPER),
    ],
)
def test_a_column_of_which_something_else_is_stated_is_found(change, fault):
    (found,) = mismatches(stated(replace(RIGHT, **change)), held())

    assert ("f", "amount", fault) == (found.file, found.column, found.fault)
    assert found.harm


@pytest.mark.parametrize(
    "change",
    [
        {"values": None},
        {"nulls": None},
        {"lower": -4},
        {"upper": 8},
        {"lower": None, "upper": None, "nans": None},
    ],
)
def test_what_is_left_out_and_what_is_wider_is_right(change):
    assert [] == mismatches(stated(replace(RIGHT, **change)), held())


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"records": 9}, Fault.RECORDS),
        ({"size_bytes": 99}, Fault.FILE_SIZE),
        ({"partition": {"amount": (4, 5)}}, Fault.PARTITION),
        ({"partition": {"amount": (None,)}}, Fault.PARTITION),
    ],
)
def test_a_file_of_which_something_else_is_stated_is_found(change, fault):
    (found,) = mismatches(stated(), held(**change))

    assert fault == found.fault


def test_a_column_and_a_partition_that_the_file_does_not_describe_are_not_compared():
    assert [] == mismatches(stated(), held(columns={}, partition={}))


def test_what_cannot_be_understood_is_found():
    (found,) = mismatches(stated(unreadable=("its statistics are no JSON",)), held())

    assert (Fault.UNREADABLE, "its statistics are no JSON") == (found.fault, found.stated)


def test_a_column_of_nulls_alone_lies_within_any_bounds():
    empty = ColumnContents(values=10, nulls=10)

    assert [] == mismatches(stated(replace(RIGHT, nulls=10, nans=0)), held(empty))


@pytest.mark.parametrize(("value", "there"), [(nan, nan), (0.0, -0.0), (None, None)])
def test_partition_values_are_equal_as_numbers_are(value, there):
    part = replace(PARTITION, value=value)
    of_file = replace(stated(), partition=(part,))

    assert [] == mismatches(of_file, held(partition={"amount": (there,)}))


@pytest.mark.parametrize("there", [0.10000000149011612, nan, None])
def test_a_partition_value_that_was_rounded_is_found(there):
    of_file = replace(stated(), partition=(replace(PARTITION, value=there),))
    (found,) = mismatches(of_file, held(partition={"amount": (0.1,)}))

    assert (Fault.PARTITION, "rows of 0.1") == (found.fault, found.held)


def test_contents_add_up():
    more = ColumnContents(values=1, nulls=0, nans=0, least=9, greatest=9)

    assert ColumnContents(11, 2, 1, -3, 9) == HELD + more
    assert HELD + ColumnContents(0, 0, 0, None, None) == HELD


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (b"caf\xc3\xa9", Kind.STRING, "'café'"),
        (b"\xff", None, r"b'\xff'"),
        (1, Kind.BOOLEAN, "true"),
        (-1, Kind.DATE, "1969-12-31"),
        (10**9, Kind.DATE, "1000000000 (since 1970)"),
        (1, Kind.TIMESTAMP, "1970-01-01T00:00:00.000001"),
        (1, Kind.TIMESTAMPTZ, "1970-01-01T00:00:00.000001+00:00"),
        (2**62, Kind.TIMESTAMPTZ, "4611686018427387904 (since 1970)"),
        (Decimal("1.50"), None, "1.50"),
        (None, Kind.STRING, "null"),
        (b"a" * 100, Kind.STRING, "'" + "a" * 59 + "… (102 characters)"),
    ],
)
def test_values_are_shown_short(value, kind, text):
    assert text == shown(value, kind)
