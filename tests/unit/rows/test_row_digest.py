"""The digest of rows is the same for the same rows in the same order, and for no others."""

import pyarrow as pa
import pytest
from tests.unit.rows.test_row_hashes import BATCH, ROWS, SCHEMA

from penstock.rows.row_digest import RowDigest


def digest(*batches: pa.RecordBatch) -> RowDigest:
    found = RowDigest()
    for each in batches:
        found.add(each)
    return found


def test_rows_have_one_digest_however_they_are_cut():
    whole = digest(BATCH)

    for rows in (1, 37, 1000):
        pieces = digest(*(BATCH.slice(at, rows) for at in range(0, len(ROWS), rows)))
        assert whole.agrees(pieces)
    copied = pa.RecordBatch.from_pylist(ROWS[200:900], SCHEMA)
    assert digest(copied).agrees(digest(BATCH.slice(200, 700)))


@pytest.mark.parametrize("name", SCHEMA.names)
def test_a_value_that_moves_to_another_row_changes_it(name):
    column = BATCH.column(name)
    turned = pa.concat_arrays([column.slice(1), column.slice(0, 1)])
    other = BATCH.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), turned)

    assert not digest(BATCH).agrees(digest(other))


def test_rows_that_are_missing_doubled_or_out_of_order_change_it():
    ids = [*range(1500)]
    others = ([*ids[:-1]], [*ids, 3], [*ids[:7], 7, *ids[7:-1]], [1, 0, *ids[2:]])
    assert not any(digest(BATCH).agrees(digest(BATCH.take(each))) for each in others)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([None, 0], [0, None]),
        ([0, None], [None, 0]),
        (["ab", "c"], ["a", "bc"]),
        (["", None], [None, ""]),
        ([[1], [2, 3]], [[1, 2], [3]]),
        ([[], None], [None, []]),
        ([[None], []], [[], [None]]),
        ([{"a": None}, None], [None, {"a": None}]),
        ([True, False], [False, True]),
        ([0.0], [-0.0]),
    ],
)
def test_what_is_alike_has_digests_of_its_own(one, other):
    kind = pa.array([*one, *other]).type
    batches = [pa.record_batch([pa.array(each, kind)], ["x"]) for each in (one, other)]
    assert not digest(batches[0]).agrees(digest(batches[1]))


def test_what_lies_where_there_is_no_value_does_not_count():
    validity = pa.array([True, False, True]).buffers()[1]
    hidden = pa.Array.from_buffers(pa.int64(), 3, [validity, pa.array([1, 2, 3]).buffers()[1]])
    plain = pa.array([1, None, 3])

    batches = [pa.record_batch([each], ["x"]) for each in (hidden, plain)]
    assert digest(batches[0]).agrees(digest(batches[1]))
