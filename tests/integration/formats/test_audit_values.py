"""`penstock audit --values` on real tables of both formats: each planted fault turns it red.

A fault is planted where a writer would make it: in the description of a file, before its commit.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestFile, PartitionFieldSummary
from pyiceberg.types import LongType

from penstock.app.inspect.metadata_audit import audit_values, values_of
from penstock.cli.audit import audit as command
from penstock.connectors import delta, iceberg
from penstock.connectors.iceberg.files.manifests import ManifestStack
from penstock.core.commits import Chain, DataFile
from penstock.core.errors import InvalidError
from penstock.core.schema import Decimal, Field, Kind, Struct
from penstock.core.statistics import Fault
from penstock.ports.tables import Table, TableDefinition, TableFormat
from penstock.spec.load import load
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import origin, prepared

NAME = "shop.orders"
CONNECTORS = {"lake": iceberg.connector, "delta": delta.connector}
ROWS = Struct(
    (
        Field("id", Kind.LONG),
        Field("name", Kind.STRING),
        Field("amount", Kind.DOUBLE),
        Field("price", Decimal(9, 2)),
        Field("at", Kind.TIMESTAMPTZ),
        Field("day", Kind.DATE),
        Field("place", Struct((Field("city", Kind.STRING), Field("height", Kind.FLOAT)))),
    )
)


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"order {number}" if number % 3 else None,
        "amount": number / 4,
        "price": None,
        "at": 1_700_000_000_123_456 + number,
        "day": number,
        "place": {"city": "Zürich" * 9, "height": 0.1},
    }


@dataclass
class Shop:
    """One catalog of each format below a directory, and a table of ours in it."""

    place: Path

    def __post_init__(self) -> None:
        self.spec = {
            "lake": {
                "type": "sql",
                "uri": f"sqlite:///{self.place}/catalog.db",
                "warehouse": f"file://{self.place}/lake",
            },
            "delta": {"type": "delta", "root": f"{self.place}/delta"},
        }
        self.catalogs: dict[str, TableFormat] = {
            name: CONNECTORS[name].open_catalog(
                {"name": name, **settings}, ProcessSecrets({}), Quiet()
            )
            for name, settings in self.spec.items()
        }

    def close(self) -> None:
        for catalog in self.catalogs.values():
            catalog.close()

    def create(self, format_: str) -> Table:
        by = ["truncate(3, id)"] if format_ == "lake" else ["day"]
        ledger = origin(Chain("shop", f"{format_}.{NAME}"), {0: 0})
        return self.catalogs[format_].create(NAME, TableDefinition(ROWS, tuple(by)), [ledger])

    def land(
        self,
        format_: str,
        rows: list[dict[str, Any]],
        changed: Callable[[DataFile], DataFile] = lambda file: file,
    ) -> list[DataFile]:
        table = self.catalogs[format_].load(NAME) or self.create(format_)
        chain = Chain("shop", f"{format_}.{NAME}")
        state = table.state(chain)
        assert state.landed is not None
        (start,) = state.landed.offsets.values()
        writer = CONNECTORS[format_].open_writer(
            state.target, prefix="shop-1-0", observer=Quiet(), secrets=ProcessSecrets({})
        )
        writer.write(batch_of(state.schema, rows))
        files = [changed(each) for each in writer.close()]
        ranges = {0: (start, start + len(rows))}
        more = {"uuid": state.uuid, "schema_id": state.schema_id}
        table.commit(state, prepared(chain, ranges, files=files, **more), retain=25)
        return files

    def found(self, format_: str) -> list[tuple[Fault, str]]:
        audited = values_of(self.catalogs[format_], NAME)
        assert () == audited.not_compared
        return [(each.fault, each.column) for each in audited.mismatches]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    opened = Shop(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("format_", ["lake", "delta"])
def test_tables_of_ours_are_right(shop: Shop, format_: str) -> None:
    shop.land(format_, [row(number) for number in range(-5, 6)])
    shop.land(format_, [{**row(9), "amount": math.nan, "name": "z" * 9000, "day": None}])
    shop.land(format_, [{**row(9), "amount": -0.0, "place": None}, {"id": 7}])
    audited = values_of(shop.catalogs[format_], NAME)

    assert (14, ()) == (audited.rows, audited.mismatches)


def described(change: Callable[[dict[str, Any]], None]) -> Callable[[DataFile], DataFile]:
    """Change the connector's part of a file's description."""

    def changed(file: DataFile) -> DataFile:
        detail = json.loads(file.detail)
        change(detail)
        return replace(file, detail=json.dumps(detail))

    return changed


def column(number: int, place: int, value: Any) -> Callable[[DataFile], DataFile]:
    """Put a value into the list that describes an Iceberg column (see `descriptions._column`)."""

    def change(detail: dict[str, Any]) -> None:
        (one,) = [each for each in detail["columns"] if each[0] == number]
        one[place] = value

    return described(change)


def stats(**given: Any) -> Callable[[DataFile], DataFile]:
    """Put values into the statistics of a Delta file: `minValues={"id": 3}`."""

    def change(detail: dict[str, Any]) -> None:
        reported = json.loads(detail["stats"])
        for key, value in given.items():
            reported[key] = {**reported[key], **value} if isinstance(value, dict) else value
        detail["stats"] = json.dumps(reported)

    return described(change)


def binary(layout: str, value: Any) -> str:
    raw = value if layout == "s" else struct.pack(layout, value)
    return base64.b64encode(raw).decode()


def parted(detail: dict[str, Any]) -> None:
    detail["partition"] = [binary("<q", 333)]


def yesterday(detail: dict[str, Any]) -> None:
    detail["partition"] = {"day": "yesterday"}


def nans(detail: dict[str, Any]) -> None:
    detail["nans"] = [[number, 1] for number, _ in detail["nans"]]


IDS = [{**row(number), "id": number} for number in (3, 4, 5)]  # one partition in both formats
FAULTS = [
    ("lake", column(1, 4, binary("<q", 4)), (Fault.LOWER, "id")),
    ("lake", column(1, 5, binary("<q", 4)), (Fault.UPPER, "id")),
    ("lake", column(2, 4, binary("s", b"order 42")), (Fault.LOWER, "name")),
    ("lake", column(2, 5, binary("s", b"order")), (Fault.UPPER, "name")),
    ("lake", column(3, 5, binary("<d", 1.1)), (Fault.UPPER, "amount")),
    ("lake", column(5, 5, binary("<q", 1_700_000_000_123_460)), (Fault.UPPER, "at")),
    ("lake", column(6, 4, binary("<i", 4)), (Fault.LOWER, "day")),
    ("lake", column(1, 4, binary("s", b"abc")), (Fault.UNREADABLE, "")),
    ("lake", column(1, 2, 2), (Fault.VALUES, "id")),
    ("lake", column(4, 3, 0), (Fault.NULLS, "price")),
    ("lake", column(8, 3, 1), (Fault.NULLS, "place.city")),
    ("lake", described(nans), (Fault.NANS, "amount")),
    ("lake", described(parted), (Fault.PARTITION, "id_trunc")),
    ("lake", lambda file: replace(file, record_count=2), (Fault.RECORDS, "")),
    ("lake", lambda file: replace(file, size_bytes=99), (Fault.FILE_SIZE, "")),
    ("delta", stats(minValues={"id": 4}), (Fault.LOWER, "id")),
    ("delta", stats(maxValues={"id": 4}), (Fault.UPPER, "id")),
    ("delta", stats(maxValues={"name": "order 4"}), (Fault.UPPER, "name")),
    ("delta", stats(maxValues={"amount": 1.1}), (Fault.UPPER, "amount")),
    ("delta", stats(minValues={"at": "2023-11-14T22:13:21Z"}), (Fault.LOWER, "at")),
    ("delta", stats(maxValues={"at": "2023-11-14T22:13:20.122Z"}), (Fault.UPPER, "at")),
    ("delta", stats(minValues={"place": {"height": 0.2}}), (Fault.LOWER, "place.height")),
    ("delta", stats(maxValues={"id": "many"}), (Fault.UNREADABLE, "")),
    ("delta", stats(minValues={"at": "yesterday"}), (Fault.UNREADABLE, "")),
    ("delta", stats(nullCount={"price": 0}), (Fault.NULLS, "price")),
    (
        "delta",
        lambda file: replace(stats(numRecords=2)(file), record_count=2),
        (Fault.RECORDS, ""),
    ),
    ("delta", lambda file: replace(file, size_bytes=99), (Fault.FILE_SIZE, "")),
]


@pytest.mark.parametrize(("format_", "planted", "expected"), FAULTS)
def test_a_planted_fault_is_found(
    shop: Shop, format_: str, planted: Callable[[DataFile], DataFile], expected: tuple[Fault, str]
) -> None:
    shop.land(format_, [{**each, "day": 3 if format_ == "delta" else each["id"]} for each in IDS])
    assert [] == shop.found(format_)
    shop.land(
        format_, [{**each, "day": 3 if format_ == "delta" else each["id"]} for each in IDS], planted
    )

    assert expected in shop.found(format_)
    assert {expected[0]} == {fault for fault, _ in shop.found(format_)}


@pytest.mark.parametrize(
    ("rows", "summary"),
    [
        (IDS, PartitionFieldSummary(False, False, *[struct.pack("<q", at) for at in (0, 2)])),
        (IDS, PartitionFieldSummary(False, False, *[struct.pack("<q", at) for at in (4, 9)])),
        (IDS, PartitionFieldSummary(True, None, None, None)),
        (IDS, PartitionFieldSummary(True, False, struct.pack("<q", 3), None)),
        ([row(0) | {"id": None}], PartitionFieldSummary(False, None, None, None)),
    ],
)
def test_a_manifest_whose_summary_leaves_a_partition_out_is_found(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[dict[str, Any]],
    summary: PartitionFieldSummary,
) -> None:
    """A reader's filter then skips all its files, whatever is said of each."""
    summed_up = ManifestStack._written

    def planted(stack: ManifestStack, *given: Any) -> ManifestFile:
        manifest = summed_up(stack, *given)
        manifest.partitions[0] = summary
        return manifest

    shop.land("lake", rows)
    assert [] == shop.found("lake")
    monkeypatch.setattr(ManifestStack, "_written", planted)
    shop.land("lake", rows)

    assert [(Fault.SUMMARY, "id_trunc")] == shop.found("lake")


NAMESAKES = Struct(
    (
        Field("id", Kind.LONG),
        Field("a.b", Kind.STRING),
        Field("a.x", Kind.DOUBLE),
        Field("a", Struct((Field("b", Kind.STRING), Field("x", Kind.DOUBLE)))),
    )
)
"""In Delta a column may have the name of a member of a struct, written with a dot."""


def named_alike(shop: Shop, changed: Callable[[DataFile], DataFile] = lambda file: file) -> None:
    ledger = origin(Chain("shop", f"delta.{NAME}"), {0: 0})
    shop.catalogs["delta"].create(NAME, TableDefinition(NAMESAKES), [ledger])
    rows = [
        {"id": 1, "a.b": "m" * 5000, "a.x": math.nan, "a": {"b": "z" * 5000, "x": 1.0}},
        {"id": 2, "a.b": "n", "a.x": 3.0, "a": {"b": "a", "x": 9.0}},
    ]
    shop.land("delta", rows, changed)


def test_a_column_with_the_name_of_a_member_has_statistics_of_its_own(shop: Shop) -> None:
    said: list[dict[str, Any]] = []

    def seen(file: DataFile) -> DataFile:
        said.append(json.loads(json.loads(file.detail)["stats"]))
        return file

    named_alike(shop, seen)

    assert [] == shop.found("delta")
    assert [{"numRecords": 2, "nullCount": {"id": 0, "a.b": 0, "a": {"b": 0}}}] == said


@pytest.mark.parametrize(
    ("named", "held"), [("a.b", {"a.b": "n"}), ("a.b", {"a": {"b": "b"}}), ("id", {"id": 2})]
)
def test_a_fault_in_a_column_with_the_name_of_a_member_is_found(
    shop: Shop, named: str, held: dict[str, Any]
) -> None:
    reported = json.dumps({"numRecords": 2, "minValues": held})
    named_alike(shop, described(lambda detail: detail.update(stats=reported)))

    assert [(Fault.LOWER, named)] == shop.found("delta")


@pytest.mark.parametrize(
    "planted",
    [
        stats(maxValues={"at": "2023-11-14T22:13:20.123Z"}),  # as Spark cuts it
        stats(minValues={"at": "2023-11-14T14:13:20.123-08:00"}),
        stats(maxValues={"amount": "Infinity"}, minValues={"amount": "-Infinity"}),
        stats(minValues={"place": {"height": 0.1}}, maxValues={"place": {"height": 0.1}}),
        stats(maxValues={"name": "order 5\U0010ffff"}),
        stats(maxValues={"at": "+12345-01-01T00:00:00.000Z"}),
        described(lambda detail: detail.update(stats='{"numRecords":3}')),
    ],
)
def test_what_writers_of_delta_may_say_is_right(
    shop: Shop, planted: Callable[[DataFile], DataFile]
) -> None:
    shop.land("delta", [{**each, "day": 3} for each in IDS], planted)

    assert [] == shop.found("delta")


def test_a_partition_value_that_is_none_is_reported_of_the_table(shop: Shop) -> None:
    shop.land("delta", IDS[:1], described(yesterday))
    with pytest.raises(InvalidError) as raised:
        shop.found("delta")

    assert "P438" == raised.value.code


def test_a_file_of_delta_that_has_its_partition_column_after_all_is_compared(shop: Shop) -> None:
    place = f"{shop.place}/delta/shop/orders"
    write_deltalake(place, pa.table({"id": [1], "part": ["a"]}), partition_by=["part"])
    (file,) = Path(place).glob("part=a/*.parquet")
    pq.write_table(pa.table({"id": [1], "part": ["b"]}), file)

    assert (Fault.PARTITION, "part") in shop.found("delta")


@pytest.mark.parametrize("format_", ["lake", "delta"])
def test_missing_or_damaged_files_are_found(shop: Shop, format_: str) -> None:
    (gone,) = shop.land(format_, [row(3)])
    (damaged,) = shop.land(format_, [row(4)])
    shop.land(format_, [row(5)])
    local = [Path(each.path.removeprefix("file://")) for each in (gone, damaged)]
    local[0].unlink()
    local[1].write_bytes(b"no Parquet")
    audited = values_of(shop.catalogs[format_], NAME)

    assert (3, 1) == (audited.files, audited.rows)
    assert {(Fault.FILE, str(each)) for each in local} == {
        (each.fault, each.file.removeprefix("file://")) for each in audited.mismatches
    }


def test_a_foreign_iceberg_table_whose_columns_changed_is_right(shop: Shop) -> None:
    other_writer = SqlCatalog("lake", **shop.spec["lake"])
    other_writer.create_namespace("shop")
    plain = pa.table({"id": [1, 2], "place": [{"city": "Rom"}, None], "of": [1.5, None]})
    table = other_writer.create_table(NAME, schema=plain.schema)
    table.append(plain)
    with table.update_schema() as change:
        change.rename_column("id", "number")
        change.add_column("later", LongType())
    with table.update_spec() as spec:
        spec.add_identity("of")
    later = plain.append_column("later", pa.array([None, 5], pa.int64()))
    table.append(later.rename_columns(["number", "place", "of", "later"]))
    audited = values_of(shop.catalogs["lake"], NAME)

    assert (4, ()) == (audited.rows, audited.mismatches)


def test_files_without_statistics_are_right(shop: Shop) -> None:
    """Of another writer: registered as they are, with neither field ids nor bounds."""
    other_writer = SqlCatalog("lake", **shop.spec["lake"])
    other_writer.create_namespace("shop")
    plain = pa.table({"id": [1, 2], "name": ["a", "b"]})
    table = other_writer.create_table(NAME, schema=plain.schema)
    path = shop.place / "other.parquet"
    pq.write_table(plain, path, write_statistics=False)
    table.add_files([str(path)])
    audited = values_of(shop.catalogs["lake"], NAME)

    assert (2, ()) == (audited.rows, audited.mismatches)


def test_a_foreign_delta_table_through_a_checkpoint(shop: Shop) -> None:
    place = f"{shop.place}/delta/shop/orders"
    for number in range(3):
        rows = pa.table({"id": [number, None], "part": ["a", "ä b/=%"]})
        write_deltalake(place, rows, mode="append", partition_by=["part"])
    handle = DeltaTable(place)
    handle.create_checkpoint()
    handle.delete("id = 1")
    more = pa.table({"id": [7], "part": ["a"], "later": [1]})
    write_deltalake(place, more, mode="append", partition_by=["part"], schema_mode="merge")
    audited = values_of(shop.catalogs["delta"], NAME)

    assert (6, ()) == (audited.rows, audited.mismatches)
    assert len(DeltaTable(place).file_uris()) == audited.files


def test_foreign_times_that_python_cannot_hold_are_right_in_a_checkpoint(shop: Shop) -> None:
    """Bounds are in the checkpoint as values of their columns as well."""
    place = f"{shop.place}/delta/shop/orders"
    far = {"day": pa.array([3_000_000], pa.date32()), "at": pa.array([2**60], pa.timestamp("us"))}
    as_struct = {"delta.checkpoint.writeStatsAsStruct": "true"}
    write_deltalake(place, pa.table(far), configuration=as_struct)
    DeltaTable(place).create_checkpoint()
    audited = values_of(shop.catalogs["delta"], NAME)

    assert (1, ()) == (audited.rows, audited.mismatches)


def test_bounds_of_another_writer_that_exclude_a_decimal_are_found(shop: Shop) -> None:
    """deltalake rounds decimals to doubles in its statistics."""
    place = f"{shop.place}/delta/shop/orders"
    exact = pa.array(["12345678901234567890.12"]).cast(pa.decimal128(30, 2))
    write_deltalake(place, pa.table({"price": exact}))

    assert [(Fault.UPPER, "price")] == shop.found("delta")


def test_nan_without_their_count_are_found(shop: Shop) -> None:
    """PyIceberg says bounds of a column with NaN, and not how many there are."""
    other_writer = SqlCatalog("lake", **shop.spec["lake"])
    other_writer.create_namespace("shop")
    plain = pa.table({"amount": [1.0, math.nan]})
    other_writer.create_table(NAME, schema=plain.schema).append(plain)

    assert [(Fault.NANS, "amount")] == shop.found("lake")


def spec_of(shop: Shop) -> Path:
    path = shop.place / "penstock.yaml"
    kafka = {"brokers": "localhost:1", "topics": ["orders"]}
    tables = [{"from": "orders", "into": "lake.shop.other"}]
    quarantine = {"into": "lake.ops.quarantine"}
    reported = {"name": "shop", "kafka": kafka, "catalogs": shop.spec, "tables": tables}
    path.write_text(json.dumps({**reported, "quarantine": quarantine}))
    return path


def test_the_command_reports_table_file_column_and_why(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of tables that no rule of the spec names, without a broker."""
    shop.land("lake", IDS, column(1, 5, binary("<q", 4)))
    shop.land("delta", IDS)
    names = [f"lake.{NAME}", f"delta.{NAME}"]
    exit_code = command(*names, spec=spec_of(shop), values=True)
    reported = capsys.readouterr().out

    assert 4 == exit_code
    assert (
        "lake.shop.orders\n  compared: 1 file, 8 columns, 3 rows\n  WRONG upper bound: id in "
        in reported
    )
    assert (
        "the metadata says 4, the file holds 5\n    why it matters: a reader's filter" in reported
    )
    assert "delta.shop.orders\n  compared: 3 files, 8 columns, 3 rows\n  ok: " in reported
    assert 0 == command(names[1], spec=spec_of(shop), values=True)
    assert 4 == command(names[0], spec=spec_of(shop), values=True, json=True)
    data = json.loads(capsys.readouterr().out.split("holds\n")[-1])
    (wrong,) = data["tables"][0]["mismatches"]
    assert ("id", "upper bound", "4", "5") == tuple(
        wrong[key] for key in ("column", "fault", "stated", "held")
    )


def test_a_file_that_is_not_compared_is_not_counted_and_nothing_is_said_of_it(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a shallow clone: it lies outside of the table's directory."""
    place = shop.place / "delta" / "shop" / "orders"
    write_deltalake(str(place), pa.table({"id": [1]}))
    entry = place / "_delta_log" / f"{0:020}.json"
    reported = entry.read_text().replace('"path":"', '"path":"file:///elsewhere/')
    entry.write_text(reported)
    exit_code = command(f"delta.{NAME}", spec=spec_of(shop), values=True)
    said = capsys.readouterr().out

    assert 2 == exit_code
    assert "compared: 0 files, 0 columns, 0 rows" in said
    assert "not compared: file:///elsewhere/" in said
    assert "nothing to compare" in said
    assert "ok:" not in said


def test_a_table_of_which_nothing_is_said_is_not_called_right(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither an empty one, nor one whose files say nothing of columns; a script can say."""
    shop.create("lake")
    place = f"{shop.place}/delta/shop/orders"
    silent = {"delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(place, pa.table({"id": [1, 2]}), configuration=silent)
    names = [f"lake.{NAME}", f"delta.{NAME}"]
    exit_code = command(*names, spec=spec_of(shop), values=True)
    said = capsys.readouterr().out

    assert 2 == exit_code
    assert "compared: 0 files, 0 columns, 0 rows\n  nothing to compare: no live file" in said
    assert "compared: 1 file, 0 columns, 2 rows\n  nothing to compare: the metadata of" in said
    assert "ok:" not in said
    assert 2 == command(names[0], spec=spec_of(shop), values=True, json=True)
    (empty,) = json.loads(capsys.readouterr().out)["tables"]
    assert ("nothing to compare", 0, 0) == (empty["outcome"], empty["files"], empty["columns"])


def test_an_audit_that_compared_one_table_is_not_failed_by_an_empty_one(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.create("lake")
    shop.land("delta", IDS)
    exit_code = command(f"lake.{NAME}", f"delta.{NAME}", spec=spec_of(shop), values=True, json=True)
    tables = json.loads(capsys.readouterr().out)["tables"]

    assert 0 == exit_code
    assert ["nothing to compare", "ok"] == [each["outcome"] for each in tables]


def test_names_in_no_catalog_and_tables_that_are_not_there_are_reported(shop: Shop) -> None:
    pipeline = load(spec_of(shop))
    with pytest.raises(InvalidError) as unknown:
        audit_values(pipeline, tables=["sea.shop.orders"])
    (absent,) = audit_values(pipeline, tables=["lake.shop.other"]).tables
    with pytest.raises(InvalidError) as both:
        command(spec=spec_of(shop), values=True, count=True)

    assert "P185" == unknown.value.code
    assert absent.problem is not None
    assert "P461" == absent.problem.code
    assert "P444" == both.value.code


def test_the_name_of_no_table_is_reported_with_the_nearest_one_of_the_spec(shop: Shop) -> None:
    (wrong,) = audit_values(load(spec_of(shop)), tables=["lake.shop.othr"]).tables

    assert wrong.problem is not None
    assert ("P185", "did you mean lake.shop.other?") == (wrong.problem.code, wrong.problem.hint)
