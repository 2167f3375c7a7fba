"""What is read of a log is whole, or an error: half of it would be an earlier table."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from penstock.connectors.delta.log.reader import Log


@pytest.fixture
def log(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    return Log(fs.LocalFileSystem(), str(tmp_path))


def entry(log, version, **transactions):
    lines = [json.dumps({"txn": {"appId": name, "version": n}}) for name, n in transactions.items()]
    Path(log.path(version)).write_text("\n".join(lines))


def checkpoint(log, name, **transactions):
    rows = [{"txn": {"appId": app_id, "version": n}} for app_id, n in transactions.items()]
    kind = pa.struct([("appId", pa.string()), ("version", pa.int64())])
    table = pa.Table.from_pylist(rows, pa.schema([("txn", kind)]))
    pq.write_table(table, log.path(0).replace(f"{0:020d}.json", name))


def test_a_checkpoint_of_which_parts_are_missing_is_passed_over(log):
    entry(log, 0, a=1, b=1)
    entry(log, 1, a=2)
    checkpoint(log, f"{1:020d}.checkpoint.{1:010d}.{2:010d}.parquet", a=2)
    assert {"a": 2, "b": 1} == log.reconciled(1).transactions

    checkpoint(log, f"{1:020d}.checkpoint.{2:010d}.{2:010d}.parquet", b=7)
    assert {"a": 2, "b": 7} == log.reconciled(1).transactions


def test_an_entry_missing_after_the_checkpoint_is_an_error(log):
    entry(log, 0, a=1)
    checkpoint(log, f"{0:020d}.checkpoint.parquet", a=1)
    entry(log, 2, a=3)
    with pytest.raises(OSError, match="version 1 of the log is missing"):
        log.reconciled(2)


def test_where_the_hint_at_the_checkpoint_is_damaged_they_are_listed(log, tmp_path):
    assert -1 == log.checkpointed()
    checkpoint(log, f"{3:020d}.checkpoint.parquet", a=1)
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text("{")
    assert 3 == log.checkpointed()
