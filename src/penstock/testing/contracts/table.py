"""The contract of `ports/tables.py`, as tests that any table format must pass.

How to use: subclass `TableContract` in a test module (`class TestIceberg(TableContract)`), give the
hooks of `TableBench` (open_catalog, open_writer, rows, foreign_append, roll_back, drop, snapshots)
and run pytest. Each test gets a fresh catalog in `tmp_path`; nothing sleeps.
"""

from __future__ import annotations

from penstock.testing.contracts.table_changes import ByHandTests, WideningTests
from penstock.testing.contracts.table_history import HistoryTests
from penstock.testing.contracts.table_landing import LandingTests
from penstock.testing.contracts.table_shards import ShardTests
from penstock.testing.contracts.table_writers import WriterTests


class TableContract(
    LandingTests, HistoryTests, WideningTests, ByHandTests, WriterTests, ShardTests
):
    """Check one table format against the promises of its port."""
