"""The contract of sources of one's own, against files of every format."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.servers.s3 import KEY, REGION, SECRET

from penstock.core.errors import DecisionNeededError
from penstock.ports.own_sources import OwnSource
from penstock.sources.files import FilesSource
from penstock.sources.text_files import PIECE_BYTES
from penstock.testing.contracts.own_sources import OwnSourceContract

DEFAULTS: dict[str, Any] = {
    "columns": {},
    "delimiter": ",",
    "grows": False,
    "settle_seconds": 0.0,
    "order": "modified",
    "storage_options": {},
}


class FilesContract(OwnSourceContract):
    """Files of one folder; pieces are small, so that a file has several."""

    settings: ClassVar[dict[str, Any]]

    @pytest.fixture(autouse=True)
    def _made(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = tmp_path
        monkeypatch.setattr("penstock.sources.text_files.PIECE_BYTES", 20)
        monkeypatch.setattr("penstock.sources.files.PARQUET_ROWS", 2)
        self.make()

    def open_source(self) -> OwnSource:
        return FilesSource(**{**DEFAULTS, "files": f"{self.folder}/*", **self.settings})

    def make(self) -> None:
        """Write the first files."""
        raise NotImplementedError

    def write(self, name: str, text: str, modified: int) -> None:
        """Write a file, with its time in seconds."""
        path = self.folder / name
        path.write_text(text)
        os.utime(path, (modified, modified))


def lines(*numbers: int) -> str:
    return "".join(json.dumps({"id": each, "name": f"n{each}"}) + "\n" for each in numbers)


class TestJson(FilesContract):
    settings: ClassVar[dict[str, Any]] = {
        "format": "json",
        "columns": {"id": "long", "name": "string"},
    }

    def make(self) -> None:
        self.write("b.jsonl", lines(1, 2, 3, 4), 10)
        self.write("a.jsonl", lines(5) + "no json\n\n" + lines(6).rstrip("\n"), 20)
        self.write("empty.jsonl", "", 5)

    def add(self) -> None:
        self.write("0.jsonl", lines(7), 5)  # older, and with a lower name, than all that were read


class TestGrowingLines(FilesContract):
    settings: ClassVar[dict[str, Any]] = {"format": "lines", "grows": True}

    def make(self) -> None:
        self.write("app.log", "one\ntwo\nthree\nfour\nfi", 10)
        self.write("other.log", "", 20)

    def add(self) -> None:
        with (self.folder / "app.log").open("a") as file:
            file.write("ve\nsix")


class TestCsv(FilesContract):
    settings: ClassVar[dict[str, Any]] = {
        "format": "csv",
        "delimiter": ";",
        "order": "name",
        "columns": {"id": "long", "price": "decimal(10,2)", "name": "string"},
    }

    def make(self) -> None:
        header = "\ufeffname;id;price;more\r\n"
        self.write("a.csv", header + 'x;1;1.50;\r\n"a;b";2;;z\r\n;x;1;\r\none;two\r\n', 20)
        self.write("b.csv", "id;price;name\n3;2.00;c\n", 10)
        self.write("header.csv", "id;price;name\n", 10)

    def add(self) -> None:
        self.write("c.csv", "id;price;name\n4;;\n", 30)


class TestParquet(FilesContract):
    settings: ClassVar[dict[str, Any]] = {"format": "parquet"}

    def make(self) -> None:
        for name, begin, count in (("a", 0, 7), ("b", 7, 1), ("none", 0, 0)):
            table = pa.table({"id": pa.array(range(begin, begin + count), pa.int64())})
            pq.write_table(table, self.folder / f"{name}.parquet", row_group_size=3)

    def add(self) -> None:
        pq.write_table(pa.table({"id": [99]}), self.folder / "c.parquet")


def test_a_piece_is_large_enough_for_columns():
    assert PIECE_BYTES >= 1 << 20


def test_files_in_s3_are_listed_and_read(s3):
    bucket, client = s3.bucket(), s3.client()
    for number, key in enumerate(["drop/a.jsonl", "drop/2026/b.jsonl", "drop/_open.jsonl"]):
        client.put_object(Bucket=bucket, Key=key, Body=lines(number).encode())
    options = {"endpoint": s3.endpoint, "region": REGION, "access_key_id": KEY}
    source = FilesSource(
        **{
            **DEFAULTS,
            "files": f"s3://{bucket}/drop/**/*.jsonl",
            "format": "json",
            "columns": {"id": "long"},
            "order": "name",
            "storage_options": {**options, "secret_access_key": SECRET, "allow_http": "true"},
        }
    )

    assert [{"file": "2026/b.jsonl"}, {"file": "a.jsonl"}] == [*source.parts()]
    (batch,) = source.read({"file": "2026/b.jsonl"}, None, None)
    assert batch.rows.to_pylist() == [{"id": 1}]
    assert batch.next == source.end({"file": "2026/b.jsonl"})
    client.put_object(Bucket=bucket, Key="drop/2026/b.jsonl", Body=b"other\n")
    with pytest.raises(DecisionNeededError) as raised:
        [*source.read({"file": "2026/b.jsonl"}, batch.next, None)]
    assert raised.value.code == "P856"
