"""Facts of a table for users: its format in words, its rows, the length of its log, its files."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from penstock.connectors.delta.log.reader import Log
from penstock.connectors.delta.log.tail import LogView
from penstock.connectors.delta.read.bounds import live_row_count
from penstock.connectors.delta.read.doubled_rows import doubled_rows
from penstock.connectors.delta.read.live_files import Add
from penstock.connectors.delta.read.live_map import LiveMap
from penstock.core.maintenance import DELTALAKE, OURS, LastMaintenance, Layout, StoredFile
from penstock.core.partition_names import PartitionValues, name_of
from penstock.core.sweeps import is_rearranged
from penstock.ports.tables import TableFacts

_ANOTHER = "another writer"
_ENGINES = {"delta-rs": DELTALAKE, "Apache-Spark": "spark"}
"""How the words begin by which engines name themselves in the log."""


def facts_of(view: LogView, adds: Collection[Add], written_ns: int | None) -> TableFacts:
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
        len(adds),
    )


def layout_of(view: LogView, live: LiveMap, log: Log) -> Layout:
    """List how the live files of a view lie. Raises OSError, and what listing them raises.

    A commit writes no metadata again: its entry is its own.
    """
    target = view.form.target
    names = dict(zip(target.partition_by, view.form.partition_by, strict=True))
    found, own = [], None
    known: dict[str, PartitionValues] = {}
    for each in live.counted(view):
        file, values = each.file, _values(names, each.add)
        named = name_of(values)
        values = known.setdefault(named, values)
        figures = file.rows, file.size_bytes, file.deleted
        clustered = bool(each.add.get("clusteringProvider"))
        found.append(StoredFile(file.path, named, *figures, clustered=clustered, values=values))
        if is_rearranged(file.path):
            own = max(own or 0, int(each.add.get("modificationTime") or 0))
    return Layout(
        found,
        target.options.target_file_bytes,
        log.bytes_at(view.version),
        maintained=_last(own, log, view.version),
        doubled="; ".join(doubled_rows(log, live.overlooked(view))),
    )


def _last(own_ms: int | None, log: Log, head: int) -> LastMaintenance | None:
    """Return when files were last rearranged: by ours that are live, or by the log since its last
    checkpoint.
    """
    base, _ = log.checkpoint(head)
    moves = (
        LastMaintenance(each.timestamp_ms, _named(each.engine))
        for each in log.entries(range(base + 1, head + 1))
        if each is not None and each.operation == "OPTIMIZE" and not each.marks
    )
    ours = [] if own_ms is None else [LastMaintenance(own_ms, OURS)]
    return max((*ours, *moves), key=lambda each: each.at_ms, default=None)


def _named(engine: str) -> str:
    return next((name for begins, name in _ENGINES.items() if engine.startswith(begins)), _ANOTHER)


def _values(names: Mapping[str, str], add: Add) -> PartitionValues:
    """Return the values of a file's partition, which the log has as texts, in quotes."""
    values = add.get("partitionValues") or {}
    return {
        name: json.dumps(values.get(stored), ensure_ascii=False) for stored, name in names.items()
    }
