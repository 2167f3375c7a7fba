"""Which fields that are asked for are in no record of a sample."""

from __future__ import annotations

import gzip

import pyarrow as pa

from penstock.rows.convert.absent_fields import absent_fields
from penstock.rows.options import RowOptions

PLAIN = RowOptions(source_columns={}, columns="drop_value")
VALUES = [b'{"id":1,"amount":2,"note":null}', b'{"ID":2}', b"{bad", b"[]", b"", None]


def batch(*values: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def test_a_field_that_no_object_has_is_absent_with_one_that_is_like_it_and_null_is_not_absent():
    found = absent_fields(map(batch, VALUES), ["id", "amout", "note", "Id", "other"], PLAIN)
    assert (2, {"amout": "amount", "Id": "ID", "other": ""}) == (found.records, found.fields)
    assert "'amout' (did you mean 'amount'?), 'Id' (did you mean 'ID'?), 'other'" == found.words()


def test_of_no_record_nothing_is_told():
    assert {} == absent_fields([batch(b"{bad", None)], ["id"], PLAIN).fields


def test_values_are_unpacked():
    packed = RowOptions(source_columns={}, columns="drop_value", compression="gzip")
    found = absent_fields([batch(gzip.compress(VALUES[0] or b""))], ["id", "amout"], packed)
    assert {"amout": "amount"} == found.fields
