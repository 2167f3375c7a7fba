"""What readers disagree on is in no statistics and no dictionary of a file."""

from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event
from penstock.files import FileOptions, ParquetEncoding, PartitionedWriter, Written

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("x", pa.float64()),
        pa.field("in", pa.struct([pa.field("y", pa.float32())])),
        pa.field("u", pa.uuid()),
        pa.field("many", pa.map_(pa.string(), pa.list_(pa.float64()))),
    ]
)


class Quiet:
    def __call__(self, event: Event) -> None:
        raise AssertionError(event)

    def passed(self, point: CrashPoint) -> None:
        pass


def written(place: Path, *groups: list[float | None]) -> list[Written]:
    """Write row groups of so many rows; `x` and `in.y` have the values given."""
    names = iter(range(100))
    writer = PartitionedWriter(
        encoding=ParquetEncoding(
            SCHEMA, FileOptions("snappy", row_group_bytes=1 << 30, buffer_bytes=1)
        ),
        filesystem=fs.LocalFileSystem(),
        path_of=lambda *_: f"{place}/{next(names)}.parquet",
        partition_of=lambda batch: [((), batch)],
        observer=Quiet(),
    )
    for values in groups:
        rows: list[dict[str, Any]] = [
            {"id": 1, "x": each, "in": {"y": each}, "u": b"u" * 16, "many": [("k", [nan, -0.0])]}
            for each in values
        ]
        writer.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    return writer.close()


def columns(file: Written) -> dict[str, tuple[bool, bool]]:
    """Return by path whether all row groups have statistics, and a dictionary, of a column."""
    footer = pq.read_metadata(file.path)
    groups = range(footer.num_row_groups)
    return {
        footer.schema.column(at).path: (
            all(footer.row_group(group).column(at).is_stats_set for group in groups),
            all(footer.row_group(group).column(at).has_dictionary_page for group in groups),
        )
        for at in range(footer.num_columns)
    }


BOTH, NO_STATISTICS, NO_DICTIONARY, NEITHER = (
    (True, True),
    (False, True),
    (True, False),
    (False,) * 2,
)
PLAIN = {
    "id": BOTH,
    "x": BOTH,
    "in.y": BOTH,
    "u": NEITHER,
    "many.key_value.key": BOTH,
    "many.key_value.value.list.element": BOTH,
}


def test_uuids_have_neither_statistics_nor_a_dictionary(tmp_path: Path) -> None:
    """Iceberg's Java library compares them as signed numbers, and skips row groups by both."""
    (file,) = written(tmp_path, [1.0, 2.0, 0.0, None], [3.0])

    assert columns(file) == PLAIN
    assert pq.ParquetFile(file.path).num_row_groups == 2


def test_a_column_with_nan_has_no_statistics(tmp_path: Path) -> None:
    """They leave NaN out, which Spark takes for the greatest number."""
    (file,) = written(tmp_path, [1.0, nan], [3.0])

    assert columns(file) == {**PLAIN, "x": NO_STATISTICS, "in.y": NO_STATISTICS}
    assert dict(file.nans) == {"x": 1, "in.y": 1}


def test_a_column_with_negative_zeros_has_no_dictionary(tmp_path: Path) -> None:
    """Readers search for 0.0 in it, and do not find -0.0."""
    (file,) = written(tmp_path, [1.0, -0.0], [0.0])

    assert columns(file) == {**PLAIN, "x": NO_DICTIONARY, "in.y": NO_DICTIONARY}


def test_where_odd_rows_come_later_a_new_file_begins_and_takes_what_follows(tmp_path: Path) -> None:
    first, second, third = written(tmp_path, [1.0], [2.0, None], [nan], [3.0], [-0.0, nan], [4.0])

    assert columns(first) == PLAIN
    assert columns(second) == {**PLAIN, "x": NO_STATISTICS, "in.y": NO_STATISTICS}
    assert columns(third) == {**PLAIN, "x": NEITHER, "in.y": NEITHER}
    assert [first.records, second.records, third.records] == [3, 2, 3]
    assert [file.nans["x"] for file in (first, second, third)] == [0, 1, 1]
