"""Readers of tables in a worker's process: opened once for each format, and kept over tasks."""

from __future__ import annotations

from penstock.app.assembly.connectors import connector_of
from penstock.app.assembly.kept_readers import kept_in_thread
from penstock.app.assembly.process import SystemClock
from penstock.ports.connectors import TableConnector
from penstock.ports.sources import RowReader
from penstock.publishing.table_work import TableReader
from penstock.spec.secrets import ProcessSecrets


@kept_in_thread
def kept_table_reader(connector: str) -> RowReader:
    """Return the reader of a format's tables, by the name of its connector."""
    opening = connector_of(TableConnector, connector).open_file_rows
    assert opening is not None, "what lists increments reads their files"
    return TableReader(opening(ProcessSecrets()), SystemClock())
