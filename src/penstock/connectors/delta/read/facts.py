"""Facts of a table for users: its format in words, its rows, the length of its log."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.connectors.delta.log.tail import LogView
from penstock.connectors.delta.read.bounds import live_row_count
from penstock.connectors.delta.read.live_files import Add
from penstock.ports.tables import TableFacts


def facts_of(view: LogView, adds: Iterable[Add], written_ns: int | None) -> TableFacts:
    """Describe a table by a view; `written_ns` is when the storage says its newest entry was."""
    words = [f"Delta, writer version {view.form.writer_version}", *view.form.features]
    if view.form.partition_by:
        words.append("partitioned by " + ", ".join(view.form.partition_by))
    return TableFacts(
        ", ".join(words),
        view.version - view.checkpointed,
        "versions since the last checkpoint",
        written_ns // 1_000_000 if written_ns else None,
        live_row_count(adds),
    )
