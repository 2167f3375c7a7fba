"""What rows inherit of the entry of their file: their ids, by place, and the version."""

import pyarrow as pa

from penstock.connectors.delta.read.row_ids import inherited_by

ADD = {"baseRowId": 100, "defaultRowCommitVersion": 7}
HELD = pa.array([None, 3, None], pa.int64())


def test_what_a_file_holds_goes_before_what_its_entry_says() -> None:
    found = inherited_by(ADD, ("id", "version"))

    assert [110, 3, 112] == found["id"].filled(HELD, 10).to_pylist()
    assert [7, 3, 7] == found["version"].filled(HELD, 10).to_pylist()


def test_nothing_is_inherited_where_nothing_is_known() -> None:
    found = inherited_by({}, ("id", "version"))

    assert {} == inherited_by(ADD, ())
    assert [HELD, HELD] == [each.filled(HELD, 0) for each in found.values()]
