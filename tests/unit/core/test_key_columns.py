"""A key is of columns that are there, and whose values are equal or not."""

import pytest

from penstock.core.errors import InvalidError
from penstock.core.key_columns import require_key_columns
from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Struct

EXACT = [
    Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.STRING, Kind.BINARY, Kind.UUID, Kind.DATE, Kind.TIME,
    Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIMESTAMP_NS, Kind.TIMESTAMPTZ_NS, Decimal(20, 2),
    Fixed(16),
]  # fmt: skip
OTHERS = [
    Kind.FLOAT, Kind.DOUBLE, Kind.UNKNOWN, List(Kind.LONG), Map(Kind.STRING, Kind.LONG),
    Struct((Field("id", Kind.LONG),)),
]  # fmt: skip


def schema_of(type_):
    return Struct((Field("id", Kind.LONG), Field("part", type_)))


@pytest.mark.parametrize("type_", EXACT, ids=str)
def test_columns_with_exact_single_values_are_of_keys(type_):
    require_key_columns("t", schema_of(type_), ("id", "part"))


@pytest.mark.parametrize("type_", OTHERS, ids=str)
def test_others_are_not(type_):
    with pytest.raises(InvalidError, match="the column part of t cannot be of its key") as caught:
        require_key_columns("t", schema_of(type_), ("id", "part"))

    assert "P434" == caught.value.code


def test_every_type_is_known_to_be_the_one_or_the_other():
    assert {*Kind} == {each for each in (*EXACT, *OTHERS) if isinstance(each, Kind)}


def test_a_column_that_is_not_there_is_of_no_key():
    with pytest.raises(InvalidError, match="t has no column nope, which is of its key") as caught:
        require_key_columns("t", schema_of(Kind.LONG), ("id", "nope"))

    assert "P434" == caught.value.code
    assert "the table has id, part" in caught.value.hint
