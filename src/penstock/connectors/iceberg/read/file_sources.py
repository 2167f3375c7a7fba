"""Tells where the rows of each live file came from, for what replaces files.

Invariants:
- a file is left out only when its statistics prove that it holds no row asked for;
- all rows of a file are read, those that delete files take away too: they are in the file.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyiceberg import expressions as where
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import DataScan, FileScanTask, Table

from penstock.connectors.iceberg.read.scan import COORDINATES, require_columns
from penstock.files.sources import PLACE, source_of
from penstock.ports.tables import FileSource


def sources_of(
    scanned: tuple[Table, DataScan | None],
    name: str,
    columns: Mapping[str, str],
    ends: Mapping[tuple[str, int], int],
) -> list[FileSource]:
    """Read the source columns of files that a scan sees; none where nothing was ever landed.

    Raises InvalidError (P435), OSError, ValueError.
    """
    table, scan = scanned
    if scan is None:
        return []
    names = [columns[each] for each in PLACE]
    require_columns(scan, name, names)
    found = scan.filter(_filter(names, ends)).select(*names)
    return [
        source_of(task.file.file_path, _rows(table, task, names), altered=bool(task.delete_files))
        for task in found.plan_files()
    ]


def _rows(table: Table, task: FileScanTask, names: list[str]) -> pa.Table:
    whole = FileScanTask(task.file)
    projected = table.schema().select(*names)
    read = ArrowScan(table.metadata, table.io, projected, where.AlwaysTrue()).to_table([whole])
    return read.select(names).rename_columns(COORDINATES.names).cast(COORDINATES)


def _filter(names: list[str], ends: Mapping[tuple[str, int], int]) -> where.BooleanExpression:
    """Return one flat filter for any number of partitions: nested ones raise RecursionError."""
    topic, partition, offset = map(where.Reference, names)
    if not ends:
        return where.IsNull(term=offset)
    wanted = where.And(
        where.In(term=topic, literals={literal(each) for each, _ in ends}),
        where.In(term=partition, literals={literal(number) for _, number in ends}),
        where.GreaterThanOrEqual(term=offset, value=literal(min(ends.values()))),
    )
    return where.Or(wanted, where.IsNull(term=offset))
