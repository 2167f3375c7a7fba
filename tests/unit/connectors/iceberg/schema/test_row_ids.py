"""What rows have that their file does not hold."""

import pyarrow as pa

from penstock.connectors.iceberg.schema.row_ids import CHANGED, NOTHING_INHERITED, ROW_ID, Inherited


def test_a_row_has_what_its_file_holds_or_else_its_place_behind_the_first_id() -> None:
    held, inherited = pa.array([None, 7, None], pa.int64()), Inherited(100, 5)

    assert [164, 7, 166] == inherited.filled(ROW_ID.name, held, 64).to_pylist()
    assert [5, 7, 5] == inherited.filled(CHANGED.name, held, 64).to_pylist()
    assert [None, 7, None] == NOTHING_INHERITED.filled(ROW_ID.name, held, 64).to_pylist()
    assert [None, 7, None] == Inherited(None, 5).filled(CHANGED.name, held, 0).to_pylist()
