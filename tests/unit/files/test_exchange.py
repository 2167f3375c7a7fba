"""Files through which rows of one partition meet: blocks, what is read at once, what is deleted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs

from penstock.core.exchange import PARTS, ExchangeFile
from penstock.files import exchange
from penstock.files.exchange import ExchangeFiles, parts_of
from penstock.testing.contracts.table_fixture import Quiet


@pytest.fixture
def files(tmp_path: Path) -> ExchangeFiles:
    return ExchangeFiles(
        filesystem=fs.LocalFileSystem(),
        path_of=lambda prefix, ending: str(tmp_path / f"{prefix}.{ending}"),
        keys_of=lambda rows: [rows.column("city")],
        observer=Quiet(),
    )


def rows_of(start: int, stop: int, cities: int) -> pa.RecordBatch:
    numbers = range(start, stop)
    cities_of = [None if n % cities == 0 else f"city {n % cities}" for n in numbers]
    return pa.record_batch({"n": numbers, "city": cities_of, "note": ["x" * 90 for _ in numbers]})


def written(files: ExchangeFiles, cities: int) -> ExchangeFile:
    writer = files.writer("shop-1-0-0c0ffee0")
    for start in range(0, 900, 300):
        writer.write(rows_of(start, start + 300, cities))
    (file,) = writer.close()
    return file


def test_a_hash_is_the_same_in_every_process() -> None:
    keys = [pa.array(["a", None, "b", "a"]), pa.array([1, 2, None, 1])]

    assert [34, 1, 54, 34] == parts_of(keys).tolist()


def test_partitions_are_spread_over_all_parts() -> None:
    counts = np.bincount(parts_of([pa.array(range(6400))]), minlength=PARTS)

    assert 50 < counts.min() <= counts.max() < 150


def test_rows_that_outgrow_what_is_held_are_written_in_blocks_of_a_size(
    files: ExchangeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A city with all rows has many blocks of one part, so that several tasks may write it."""
    monkeypatch.setattr(exchange, "HELD_BYTES", 40_000)
    monkeypatch.setattr(exchange, "BLOCK_BYTES", 10_000)
    file = written(files, 1)

    assert 1 == len({block.part for block in file.blocks})
    assert len(file.blocks) >= 9
    assert max(block.rows for block in file.blocks) <= 100
    assert [*range(900)] == [n for rows in files.read((file,)) for n in rows["n"].to_pylist()]


def test_blocks_that_are_neighbours_are_read_in_one_request(
    files: ExchangeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(files, 30)
    assert 1 == len([*files.read((file,))])
    monkeypatch.setattr(exchange, "READ_BYTES", file.blocks[0].size_bytes)

    batches = [*files.read((file,))]
    assert len(file.blocks) == len(batches)
    assert [*range(900)] == sorted(n for rows in batches for n in rows["n"].to_pylist())


def test_no_rows_make_no_file_nor_do_those_that_are_let_go(
    files: ExchangeFiles, tmp_path: Path
) -> None:
    assert () == files.writer("shop-1-0-0c0ffee0").close()
    assert [] == [*tmp_path.iterdir()]
    writer = files.writer("shop-1-1-0c0ffee1")
    writer.write(rows_of(0, 10, 3))
    writer.abandon()
    assert [] == [*tmp_path.iterdir()]


def test_nothing_but_exchange_files_is_ever_deleted(files: ExchangeFiles, tmp_path: Path) -> None:
    data = tmp_path / "shop-1-0-0c0ffee0-1111111111111111.parquet"
    data.touch()
    with pytest.raises(AssertionError):
        files.discard([str(data)])

    assert data.exists()
