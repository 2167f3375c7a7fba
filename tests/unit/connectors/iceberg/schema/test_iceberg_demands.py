"""Defaults that writers fill in: constants of a table's columns, others refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as Exact
from typing import Any
from uuid import UUID

import pytest
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, MapType, NestedField, StringType, StructType

from penstock.connectors.iceberg.schema.demands import demands_of
from penstock.connectors.iceberg.schema.types import to_core
from penstock.core.demands import Demands
from penstock.core.errors import InvalidError
from penstock.rows.demands.evaluate import constant


def demanded(*fields: NestedField) -> Demands:
    schema = Schema(*fields)
    return demands_of(schema, to_core(schema, "lake.b.orders"), "lake.b.orders")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (iceberg.BooleanType(), True),
        (iceberg.IntegerType(), 7),
        (iceberg.LongType(), -7),
        (iceberg.DoubleType(), 1.5),
        (iceberg.DecimalType(9, 2), Exact("1.25")),
        (iceberg.StringType(), "Ulm"),
        (iceberg.DateType(), dt.date(2020, 1, 2)),
        (iceberg.TimestampType(), dt.datetime.fromisoformat("2020-01-02T03:04:05.000006")),
        (iceberg.TimestamptzType(), dt.datetime(2020, 1, 2, tzinfo=dt.UTC)),
    ],
)
def test_a_default_is_the_constant_of_its_column(kind: Any, value: Any) -> None:
    field = NestedField(1, "it", kind, required=False).model_copy(update={"write_default": value})
    [default] = demanded(field).defaults

    assert ("it", value) == (default.column, constant(default.value).as_py())


def test_a_default_within_a_column_is_refused_wherever_it_is() -> None:
    inner = NestedField(5, "city", StringType(), required=False, write_default="Ulm")
    for kind, path in (
        (StructType(inner), "place.city"),
        (ListType(6, StructType(inner), element_required=False), "place.element.city"),
        (MapType(6, StringType(), 7, StructType(inner)), "place.value.city"),
    ):
        with pytest.raises(InvalidError, match=f"into the column {path}") as raised:
            demanded(NestedField(4, "place", kind, required=False))
        assert "P436" == raised.value.code


def test_a_default_of_a_type_without_constants_is_refused() -> None:
    field = NestedField(1, "it", iceberg.UUIDType(), required=False)
    with pytest.raises(InvalidError, match="constants of uuid are not supported") as raised:
        demanded(field.model_copy(update={"write_default": UUID(int=7)}))
    assert "P436" == raised.value.code
