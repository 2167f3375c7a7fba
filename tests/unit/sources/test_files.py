"""Files as a source: what is found, what is read, and what is told."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contracts.test_file_sources import DEFAULTS, lines

from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.ports.own_sources import Batch
from penstock.sources import listing as found_files
from penstock.sources import text_files
from penstock.sources.files import FilesSource
from penstock.sources.listing import Listing

JSON = {"format": "json", "columns": {"id": "long", "name": "string"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(
        ["b.jsonl", "a.jsonl", ".hidden.jsonl", "_open.jsonl", "deep/c.jsonl", "deep/.x/d.jsonl"]
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(lines(number))
        os.utime(path, (number, number))
    return tmp_path


def opened(folder: Path, **changes: Any) -> FilesSource:
    return FilesSource(**{**DEFAULTS, "files": f"{folder}/*.jsonl", **JSON, **changes})


def read(source: FilesSource, name: str, at: Any = None, until: Any = None) -> list[Batch]:
    return [*source.read({"file": name}, at, until)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.jsonl", ["b.jsonl", "a.jsonl"]),
        ("", ["b.jsonl", "a.jsonl"]),
        ("**/*.jsonl", ["b.jsonl", "a.jsonl", "deep/c.jsonl"]),
        ("*/*.jsonl", ["deep/c.jsonl"]),
        ("deep/*", ["c.jsonl"]),
        ("?.jsonl", ["b.jsonl", "a.jsonl"]),
        ("[a].jsonl", ["a.jsonl"]),
        ("[!a].jsonl", ["b.jsonl"]),
        ("[a-b].json*", ["b.jsonl", "a.jsonl"]),
        (".hidden.jsonl", [".hidden.jsonl"]),
        ("_*", ["_open.jsonl"]),
        ("b.jsonl", ["b.jsonl"]),
        ("x*", []),
    ],
)
def test_a_pattern_finds_its_files_in_the_order_of_their_times(folder, pattern, names):
    assert names == [each.name for each in Listing(f"{folder}/{pattern}", "modified", {}).files()]


def test_files_may_be_in_the_order_of_their_names(folder):
    found = Listing(f"{folder}/*", "name", {}).files()
    assert ["a.jsonl", "b.jsonl"] == [each.name for each in found]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InvalidError) as raised:
        Listing(f"{tmp_path}/none/*", "name", {}).files()
    assert raised.value.code == "P858"


def test_too_many_files_are_told(folder, monkeypatch):
    monkeypatch.setattr(found_files, "FILES_MAX", 1)
    with pytest.raises(InvalidError) as raised:
        Listing(f"{folder}/*", "name", {}).files()
    assert raised.value.code == "P858"
    assert "2 files match" in raised.value.message


def test_a_file_that_was_modified_just_now_waits(folder):
    source = opened(folder, settle_seconds=3600.0)
    now = time.time()
    os.utime(folder / "b.jsonl", (now, now))

    assert [{"file": "a.jsonl"}] == [*source.parts()]


def test_lines_of_json_are_exact_or_bad_with_their_place(tmp_path):
    columns = {"id": "long", "price": "decimal(10,2)", "at": "timestamptz"}
    good = '{"id": 1, "price": 1.10, "at": "2026-01-01T00:00:00Z", "unknown": 1}\n'
    (tmp_path / "x.jsonl").write_bytes(good.encode() + b'{"id": "x"}\n\nno json\n\xff\n')
    (batch,) = read(opened(tmp_path, columns=columns), "x.jsonl")

    time_read = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert batch.rows.to_pylist() == [{"id": 1, "price": Decimal("1.10"), "at": time_read}]
    assert [each.place for each in batch.bad] == [
        f"line at byte {len(good) + begin}" for begin in (0, 13, 21)
    ]
    assert [each.code for each in batch.bad] == ["P366", "P302", "P303"]
    assert batch.bad[0].reason == "id: the text is not a number"


def test_a_file_that_was_replaced_stops_and_says_how_to_go_on(folder):
    source = opened(folder)
    at = source.end({"file": "a.jsonl"})
    assert read(source, "a.jsonl", at) == []

    (folder / "a.jsonl").write_text(lines(1, 2))
    with pytest.raises(DecisionNeededError) as raised:
        read(source, "a.jsonl", at)
    assert raised.value.code == "P856"
    assert """penstock seek NAME '{"file": "a.jsonl"}=earliest'""" in raised.value.hint


def test_a_file_that_was_written_while_it_was_listed_is_listed_again(folder):
    source = opened(folder)
    until = source.end({"file": "a.jsonl"})
    (folder / "a.jsonl").write_text(lines(1, 2))

    with pytest.raises(OSError, match="changed since it was listed"):
        read(source, "a.jsonl", None, until)


def test_a_file_that_is_removed_halfway_is_told(folder):
    source = opened(folder)
    assert source.gone({"file": "x"}, source.end({"file": "a.jsonl"})) == ""
    assert "removed when a part" in source.gone({"file": "x"}, {"bytes": 3, "size": 9})


@pytest.mark.parametrize("change", ["shorter", "rewritten"])
def test_a_file_that_grows_and_was_changed_before_the_position_stops(tmp_path, change):
    path = tmp_path / "app.log"
    path.write_text("one\ntwo\nthr")
    source = opened(tmp_path, files=f"{tmp_path}/*", format="lines", columns={}, grows=True)
    (batch,) = read(source, "app.log")

    assert batch.rows.column("line").to_pylist() == ["one", "two"]
    assert batch.next == {**source.end({"file": "app.log"})}
    assert read(source, "app.log", batch.next) == []
    path.write_text("one\n" if change == "shorter" else "one\nTWO\nthree\n")
    with pytest.raises(DecisionNeededError) as raised:
        read(source, "app.log", batch.next)
    assert raised.value.code == "P856"


def test_the_end_of_a_long_line_is_found(tmp_path):
    (tmp_path / "app.log").write_text("one\n" + "x" * 200_000)
    source = opened(tmp_path, files=f"{tmp_path}/*", format="lines", columns={}, grows=True)

    assert source.end({"file": "app.log"})["bytes"] == 4


def test_a_line_without_end_is_not_read_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE_BYTES", 4)
    monkeypatch.setattr(text_files, "LINE_BYTES_MAX", 20)
    (tmp_path / "a.jsonl").write_text("x" * 100)
    with pytest.raises(DecisionNeededError) as raised:
        read(opened(tmp_path), "a.jsonl")
    assert raised.value.code == "P857"
    assert "the line at byte 0" in raised.value.message


@pytest.mark.parametrize(
    ("header", "words"),
    [("id\n1\n", "lacks name"), ("id,id,name\n", "has a name twice")],
)
def test_a_header_that_lacks_columns_is_told(tmp_path, header, words):
    (tmp_path / "a.csv").write_text(header)
    source = opened(tmp_path, files=f"{tmp_path}/*", format="csv")
    with pytest.raises(DecisionNeededError) as raised:
        read(source, "a.csv")
    assert raised.value.code == "P857"
    assert words in raised.value.message


def test_a_file_that_is_no_parquet_is_told(tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet at all")
    source = opened(tmp_path, files=f"{tmp_path}/*", format="parquet", columns={})
    with pytest.raises(DecisionNeededError) as raised:
        read(source, "a.parquet")
    assert raised.value.code == "P857"
    assert json.dumps({"file": "a.parquet"}) in raised.value.hint


def test_columns_are_those_of_the_spec_or_of_the_first_file(tmp_path):
    assert opened(tmp_path).columns().names == ["id", "name"]
    source = opened(tmp_path, files=f"{tmp_path}/*", format="parquet", columns={})
    assert source.columns() is None

    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    assert source.columns().names == ["n"]


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_an_empty_csv_has_no_rows(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    own = {"files": f"{tmp_path}/*.csv", "format": "csv", "columns": {"id": "long"}}
    source = opened(tmp_path, **own)
    found = [*source.read({"file": "a.csv"}, None, source.end({"file": "a.csv"}))]

    assert [[]] == [each.rows for each in found]
    assert found[0].next["done"]
