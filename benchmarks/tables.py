"""What is in a table, by readers that are not ours: PyIceberg or deltalake lists, DuckDB reads.

Invariant: a table is right when it holds each id from 0 to its number of rows exactly once; an
empty expectation is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.children import FailedError
from benchmarks.specs import TABLE, Format

_FILE_EPOCH = r"/bench-(\d+)-[^/]*$"


@dataclass(frozen=True, slots=True)
class Found:
    """The live files of a table and the rows in them."""

    rows: int
    sizes: Sequence[int]

    @property
    def files(self) -> int:
        """Count the files."""
        return len(self.sizes)

    @property
    def size_bytes(self) -> int:
        """Add up what the files weigh."""
        return sum(self.sizes)


def checked(
    folder: Path, table_format: Format, rows: int, names: Sequence[str] = (TABLE,)
) -> Found:
    """Read tables. Raises FailedError unless they hold the records 0 to `rows` once each."""
    return whole([path for name in names for path in live_files(folder, table_format, name)], rows)


def whole(paths: list[str], rows: int) -> Found:
    """Read data files; raises what `checked` does."""
    assert rows > 0, "nothing proves nothing"
    import duckdb

    counted = (
        duckdb.connect()
        .execute(
            "select count(*), count(distinct id), min(id), max(id) from read_parquet(?)", [paths]
        )
        .fetchone()
    )
    if counted != (rows, rows, 0, rows - 1):
        raise FailedError(f"{rows} records were sent; rows, ids, first, last are {counted}")
    return Found(rows, [Path(path).stat().st_size for path in paths])


def live_files(folder: Path, table_format: Format, name: str = TABLE) -> list[str]:
    """List the data files that a table's metadata names."""
    if table_format == "delta":
        from deltalake import DeltaTable

        uris = DeltaTable(str(folder / "delta" / name.replace(".", "/"))).file_uris()
    else:
        from pyiceberg.catalog import load_catalog

        uri = f"sqlite:///{folder}/catalog.db"
        catalog = load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{folder}/lake")
        uris = [task.file.file_path for task in catalog.load_table(name).scan().plan_files()]
    return [uri.removeprefix("file://") for uri in uris]


def landed_files(folder: Path) -> list[str]:
    """List the data files that epochs wrote, those that nothing names any more as well."""
    return [str(each) for each in folder.rglob("*.parquet") if is_landed(each)]


def is_landed(file: Path) -> bool:
    """Return whether an epoch wrote a data file: its name bears the number."""
    return re.search(_FILE_EPOCH, str(file)) is not None


def latencies(
    paths: list[str], commits_ms: Mapping[int, int], since_ms: int
) -> npt.NDArray[np.float64]:
    """Return the seconds from a record's making to its commit, of records made since a time.

    Files bear the number of their epoch in their names; `commits_ms` says when it was committed.
    """
    import duckdb

    known = pa.table({"epoch": list(commits_ms), "committed": list(commits_ms.values())})
    with duckdb.connect() as connection:
        connection.register("commits", known)
        found = connection.execute(
            "select committed - epoch_ms(_kafka_timestamp) as ms"
            " from read_parquet(?, filename = true)"
            " left join commits on epoch = cast(regexp_extract(filename, ?, 1) as bigint)"
            " where epoch_ms(_kafka_timestamp) >= ?",
            [paths, _FILE_EPOCH, since_ms],
        ).fetchnumpy()["ms"]
    if np.ma.is_masked(found):
        raise FailedError("a file belongs to no commit that was reported")
    return np.asarray(found, np.float64) / 1000.0
