"""The changes that are landed, and that a table with another row is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from benchmarks import keyed
from benchmarks.children import FailedError
from deltalake import write_deltalake

SMALL = keyed.Options(format="delta", table_rows=40, changes=20, epochs=2, peer_epochs=1)


def test_a_key_is_in_stop_across_partitions_and_among_the_rows() -> None:
    drawn = keyed.keys(SMALL)

    assert 3 * SMALL.changes == len(drawn)
    assert (drawn % SMALL.partitions == np.arange(len(drawn)) % SMALL.partitions).all()
    assert {*drawn.tolist()} <= {*range(SMALL.table_rows)}
    assert drawn.tolist() == [json.loads(each)["id"] for each in keyed.values(drawn, 40)]


@pytest.mark.parametrize("wrong", ["", "_kafka_offset", "id"])
def test_rows_that_are_not_the_last_of_their_keys_are_refused(tmp_path: Path, wrong: str) -> None:
    drawn = keyed.keys(SMALL)
    last = {key: key for key in range(SMALL.table_rows)}
    last |= {key: SMALL.table_rows + at for at, key in enumerate(drawn.tolist())}
    rows = {"id": [*last], "_kafka_offset": [each // SMALL.partitions for each in last.values()]}
    rows = {**rows, "amount": [0.5] * len(last)}
    if wrong:
        rows[wrong][3] += 1
    write_deltalake(str(tmp_path / "delta/bench/events"), pa.table(rows))
    given = (tmp_path, SMALL.format, SMALL.partitions, SMALL.table_rows, drawn)
    if not wrong:
        keyed.check_offsets(*given)
        assert all(each > 0 for each in keyed._read(tmp_path, SMALL))
        return
    with pytest.raises(FailedError, match="not the last records"):
        keyed.check_offsets(*given)


def test_the_peer_merges_the_last_change_of_each_key(tmp_path: Path) -> None:
    assert 1 == len(keyed.merged(tmp_path, SMALL, keyed.keys(SMALL)))
