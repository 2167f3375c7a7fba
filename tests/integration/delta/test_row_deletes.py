"""Row deltas of Delta tables: read back by deltalake, which knows nothing of ours, row by row.

DuckDB reads Delta by an extension that is no package; Spark is in `readers/test_row_deletes_of_delta.py`.
"""

import json
import shutil
from dataclasses import replace
from datetime import datetime
from decimal import Decimal as Exactly

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import convert_to_deltalake, write_deltalake
from tests.integration.delta.foreign_delete import foreign_delete
from tests.integration.delta.keyed import VECTORS, Keyed, counted, queried
from tests.integration.delta.lake import CHAIN, COLUMNS, NAME, ORDERS, Lake, origin

from penstock.app.inspect.keys_audit import keys_of
from penstock.app.inspect.metadata_audit import values_of
from penstock.connectors.delta.catalog import DeltaCatalog
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.read.live_map import LiveMap
from penstock.connectors.delta.vectors.descriptor import packed
from penstock.core.commits import CommitKind
from penstock.core.errors import BugError, ConflictError, InvalidError, UnavailableError
from penstock.core.schema import Decimal, Field, Kind, Struct
from penstock.files import objects
from penstock.files.deletion_vectors import encoded
from penstock.ports.row_deletes import POSITION, RowDeleteMode, RowDeletes
from penstock.ports.tables import TableDefinition, Verdict
from penstock.rows.keyed.file_bounds import KeyBounds

WIDE = Struct(
    (
        *ORDERS.fields,
        Field("country", Kind.STRING),
        Field("price", Kind.DOUBLE),
        Field("on_day", Kind.DATE),
    )
)
COUNTRIES = ["DE", "New Zealand", "Österreich 100%", "日本/東京?#", None]


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path, warm=True)


def row(number, offset, **given):
    return {
        "id": number,
        "name": f"order {number} at {offset}",
        "_kafka_topic": "orders",
        "_kafka_partition": 0,
        "_kafka_offset": offset,
        **given,
    }


def wide(number, offset):
    return row(
        number,
        offset,
        country=COUNTRIES[(number + offset) % len(COUNTRIES)],
        price=(number * 7 % 1000) / 4 if number % 11 else None,
        on_day=np.datetime64("2024-02-27").astype("datetime64[D]").item(),
    )


def entry(lake, version):
    path = lake.location / "_delta_log" / f"{version:020d}.json"
    return [json.loads(line) for line in path.read_text().splitlines()]


def actions(lake, version, kind):
    return [each[kind] for each in entry(lake, version) if kind in each]


def vectors(lake):
    return sorted(lake.location.glob("deletion_vector_*.bin"))


@pytest.mark.parametrize("partition_by", [(), ("country",)])
def test_many_upserts_and_deletes_are_read_back_row_by_row(lake, tmp_path, partition_by):
    lake.create(schema=WIDE, partition_by=partition_by, properties=VECTORS)
    keyed, draw = Keyed(lake, CHAIN), np.random.default_rng(7)
    for turn in range(12):
        touched = draw.choice(300, 60, replace=False).tolist()
        upserts = [wide(number, keyed.offset + at) for at, number in enumerate(touched[:40])]
        keyed.change(upserts, touched[40:])
        if turn == 6:
            lake.handle.create_checkpoint()
    expected = keyed.live()

    assert expected == queried(lake.handle)
    assert [len(expected), expected[0]["id"], expected[-1]["id"]] == counted(lake.handle)
    for where, holds in (
        ("id >= 100 AND id < 140", lambda r: 100 <= r["id"] < 140),
        ("name = 'order 5 at 3'", lambda r: r["name"] == "order 5 at 3"),
        ("country = 'Österreich 100%'", lambda r: r["country"] == "Österreich 100%"),
        ("country IS NULL", lambda r: r["country"] is None),
        ("price > 100", lambda r: r["price"] is not None and r["price"] > 100),
        ("_kafka_offset >= 600", lambda r: r["_kafka_offset"] >= 600),
    ):
        assert [r for r in expected if holds(r)] == queried(lake.handle, where), where
    cold = Lake(tmp_path)
    for each in (lake, cold):
        state = each.state()
        files = each.table.live_files(state)
        found = [b for f in files for b in each.table.read_live(state, f, WIDE.names)]
        rows = pa.Table.from_batches(found).drop_columns([POSITION]).to_pylist()
        assert expected == sorted(rows, key=lambda r: r["id"])
        assert len(expected) == sum(f.rows - f.deleted for f in files) == each.table.describe().rows
    offsets = lake.table.row_coordinates(COLUMNS)["offset"].to_pylist()
    assert sorted(r["_kafka_offset"] for r in expected) == sorted(offsets)


def test_a_million_positions_of_one_file_are_read_back(lake):
    lake.create(properties=VECTORS)
    count = 1_200_000
    numbers = pa.array(np.arange(count))
    rows = pa.RecordBatch.from_arrays(
        [
            numbers,
            pa.repeat("order", count),
            pa.repeat("orders", count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            numbers,
        ],
        names=list(ORDERS.names),
    )
    state = lake.state()
    delta(lake, files=lake.write(state, rows))
    gone = np.sort(np.random.default_rng(3).choice(count, 1_000_000, replace=False))
    for part in (gone[::100_000], np.delete(gone, np.s_[::100_000])):
        [file] = lake.table.live_files(lake.state())
        delta(lake, RowDeletes(file.path, file.delete_state, part))
    left = np.setdiff1d(np.arange(count), gone)

    assert max(each.stat().st_size for each in vectors(lake)) > 100_000
    assert left.tolist() == sorted(pa.table(lake.handle.scan(columns=["id"]))["id"].to_pylist())
    where = "id >= 70000 AND id < 70100"
    expected = [int(n) for n in left if 70_000 <= n < 70_100]
    assert expected == [r["id"] for r in queried(lake.handle, where, "id")]
    state = lake.state()
    [file] = lake.table.live_files(state)
    found = pa.Table.from_batches(lake.table.read_live(state, file, ["id"]))
    assert left.tolist() == found["id"].to_pylist() == found[POSITION].to_pylist()


def test_files_of_others_with_odd_names_keep_their_names(lake):
    values = ["a b", "Ö%20ü", "100%", "日本=x:y", "#?&+", None]
    rows = [
        {"id": number, "name": f"first {number}", "part": values[number % 6]}
        for number in range(60)
    ]
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("part", pa.string())])
    for half in (rows[:30], rows[30:]):
        write_deltalake(
            lake.location,
            pa.Table.from_pylist(half, schema),
            partition_by=["part"],
            mode="append",
            configuration=VECTORS,
        )
    keyed = Keyed(lake, CHAIN)
    keyed.rows = {each["id"]: each for each in rows}
    keyed.change(
        [{"id": n, "name": "new", "part": values[(n + 1) % 6]} for n in range(0, 60, 7)],
        [*range(1, 60, 7)],
    )
    keyed.change([{"id": n, "name": "newer", "part": "a b"} for n in range(0, 60, 14)], [2, 3, 4])

    paths = [each["path"] for v in (2, 3) for each in actions(lake, v, "remove")]
    assert any("%" in path for path in paths)
    assert keyed.live() == queried(lake.handle)
    for value in values[:5]:
        expected = [each for each in keyed.live() if each["part"] == value]
        assert expected == queried(lake.handle, f"part = '{value}'")
    state = lake.state()
    for file in lake.table.live_files(state):
        [value] = {
            b
            for batch in lake.table.read_live(state, file, ["part"])
            for b in batch["part"].to_pylist()
        }
        assert (value, value) == file.bounds.get("part", (None, None))


def test_the_vectors_of_a_commit_share_a_file(lake):
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    for start in (0, 5_000, 10_000):
        keyed.change([row(n, n) for n in range(start, start + 5_000)])
    keyed.change(deletes=[3, *range(5_000, 10_000, 2), *range(10_000, 15_000, 3)])
    kinds = [each["deletionVector"] for each in actions(lake, 4, "add")]

    [file] = vectors(lake)
    assert ["u", "u", "u"] == [each["storageType"] for each in kinds]
    assert 3 == len({each["offset"] for each in kinds})
    assert keyed.live() == queried(lake.handle)
    keyed.change(deletes=[3, 4, 5_001])
    assert keyed.live() == queried(lake.handle)
    assert {file} < {*vectors(lake)}


def test_deltalake_takes_live_vectors_for_files_that_nobody_needs_if_asked_for_all(lake):
    """A deviation that docs/explanation/small-files.md warns of: were it gone, so could that be."""
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    keyed.change([row(n, n) for n in range(5)])
    keyed.change(deletes=[1])
    [live] = vectors(lake)
    asked = {"retention_hours": 0, "enforce_retention_duration": False, "dry_run": True}

    assert [live.name] == lake.handle.vacuum(full=True, **asked)
    assert [] == lake.handle.vacuum(**asked)


@pytest.mark.parametrize("is_kept_in_checkpoint", [False, True])
def test_rows_of_files_whose_vectors_are_in_the_log_are_deleted(
    lake, tmp_path, is_kept_in_checkpoint
):
    """The log may have them from other writers; a vector of ours takes such a one's place."""
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    keyed.change([row(n, n) for n in range(10)])
    keyed.change(deletes=[1, 8])
    lines = entry(lake, 2)
    [add] = [each["add"] for each in lines if "add" in each]
    data = encoded(np.array([1, 8]))
    held = {"storageType": "i", "pathOrInlineDv": packed(data), "sizeInBytes": len(data)}
    add["deletionVector"] = {**held, "cardinality": 2}
    path = lake.location / "_delta_log" / f"{2:020d}.json"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    for each in vectors(lake):
        each.unlink()
    if is_kept_in_checkpoint:
        lake.handle.create_checkpoint()
    cold = Keyed(Lake(tmp_path, warm=True), CHAIN)
    cold.rows, cold.offset = keyed.rows, keyed.offset
    assert cold.live() == queried(lake.handle)
    cold.change([row(3, 20)], deletes=[5])
    [removed], [renewed, _] = actions(lake, 3, "remove"), actions(lake, 3, "add")

    assert add["deletionVector"] == removed["deletionVector"]
    assert ("u", 4) == (
        renewed["deletionVector"]["storageType"],
        renewed["deletionVector"]["cardinality"],
    )
    assert [0, 2, 3, 4, 6, 7, 9] == lake.ids()
    assert cold.live() == queried(lake.handle)


def test_a_removal_names_the_former_vector_and_an_addition_every_field(lake):
    lake.create(properties=VECTORS)
    lake.land({0: (0, 10)})
    path = lake.location / "_delta_log" / f"{1:020d}.json"
    lines = entry(lake, 1)
    more = {
        "tags": {"ZCUBE_ID": "x", "odd": ""},
        "baseRowId": 7,
        "defaultRowCommitVersion": 1,
        "clusteringProvider": "liquid",
        "later": {"kept": [1, "as it is"]},
    }
    [add] = [each["add"] for each in lines if "add" in each]
    stats = add["stats"][:-1] + ',"odd":12345678901234567890123.10}'
    add |= {**more, "stats": stats}
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    cold = Keyed(Lake(lake.root.parent, warm=True), CHAIN)
    cold.offset = 10
    cold.change(deletes=[1])
    cold.change(deletes=[8, 2])
    [before], [removed], [added] = (
        actions(lake, 2, "add"),
        actions(lake, 3, "remove"),
        actions(lake, 3, "add"),
    )

    assert before["deletionVector"] == removed["deletionVector"]
    for name in ("path", "size", "partitionValues", "tags", "baseRowId", "defaultRowCommitVersion"):
        assert add[name] == removed[name] == added[name]
    for name, value in more.items():
        assert value == added[name]
    statistics = json.loads(added["stats"])
    assert (10, False, 3) == (
        statistics["numRecords"],
        statistics["tightBounds"],
        added["deletionVector"]["cardinality"],
    )
    assert '"odd":12345678901234567890123.10' in added["stats"]
    assert [0, 3, 4, 5, 6, 7, 9] == lake.ids()


def test_fields_are_kept_through_a_checkpoint(lake, tmp_path):
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    keyed.change([row(n, n) for n in range(10)])
    keyed.change(deletes=[1])
    lake.handle.create_checkpoint()
    [before] = actions(lake, 2, "add")
    for version in range(3):
        (lake.location / "_delta_log" / f"{version:020d}.json").unlink()
    cold = Keyed(Lake(tmp_path, warm=True), CHAIN)
    cold.offset = 11
    cold.change(deletes=[2])
    [removed], [added] = actions(lake, 3, "remove"), actions(lake, 3, "add")

    assert before["deletionVector"] == removed["deletionVector"]
    assert {**before, "deletionVector": added["deletionVector"]} == added
    assert [0, 3, 4, 5, 6, 7, 8, 9] == lake.ids()


def test_files_that_deltalake_rewrote_are_read_where_rows_of_them_are_deleted(lake):
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    keyed.change([row(number, number) for number in range(8)])
    keyed.change([row(2, 8)], deletes=[3])
    assert 1 == lake.handle.delete("id = 7")["num_added_files"]
    keyed.rows.pop(7)
    keyed.change([row(5, 10)], deletes=[6])

    state = lake.state()
    columns = ["name", "_kafka_topic", "_kafka_offset"]
    found = [
        each
        for file in lake.table.live_files(state)
        for batch in lake.table.read_live(state, file, columns)
        for each in batch.select(columns).to_pylist()
    ]
    live = [{name: each[name] for name in columns} for each in keyed.live()]
    assert live == sorted(found, key=lambda each: each["name"])
    assert keyed.live() == queried(lake.handle)


def test_old_timestamps_of_spark_are_read_as_they_are_and_deltalake_wraps_them(lake):
    """Spark writes them as INT96 into Delta tables, by default; deltalake has nanoseconds for it."""
    old = datetime(1582, 10, 10, 12)  # noqa: DTZ001  it has no zone there
    lake.location.mkdir(parents=True)
    rows = pa.table({"at": pa.array([old], pa.timestamp("us"))})
    written = lake.location / "part-0.parquet"
    pq.write_table(rows, written, use_deprecated_int96_timestamps=True, store_schema=False)
    convert_to_deltalake(lake.location)
    handle = lake.handle

    [file] = lake.table.live_files(state := lake.state())
    [batch] = lake.table.read_live(state, file, ["at"])
    assert [old] == batch.column("at").to_pylist()
    assert [old] != pa.table(handle.scan())["at"].to_pylist()  # known to be wrong


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (Decimal(15, 2), ("-9999999999999.99", "0.07")),
        (Decimal(18, 11), ("-1234567.89459883884", "1934573.89459883884")),
        (Decimal(38, 0), ("9223372036854775807", "99999999999999999999999999999")),
        (Decimal(38, 10), ("-9999999999999999999999999999.9999999999", "0.0000000001")),
    ],
)
def test_keys_are_found_in_files_that_deltalake_rewrote_whatever_it_says_of_them(lake, kind, texts):
    """It states decimals as it computes with them: as doubles, or as longs at most."""
    lake.create(schema=Struct((Field("amount", kind), *ORDERS.fields)))
    amounts = [Exactly(text) for text in texts]
    for offset, amount in enumerate(amounts):
        written = lake.write(lake.state(), [row(offset, offset, amount=amount)])
        lake.land({0: (offset, offset + 1)}, files=written)
    assert 1 == lake.handle.optimize.compact()["numFilesAdded"]

    [file] = lake.table.live_files(lake.state())
    for amount in amounts:
        keys = [pa.array([amount], pa.decimal128(kind.precision, kind.scale))]
        assert KeyBounds(["amount"], keys).may_be_in(file.bounds), file.bounds
    assert (kind.precision <= 15) == ("amount" in file.bounds)


def test_keys_are_audited_by_the_rows_that_others_left(lake):
    lake.create(properties=VECTORS)
    lake.land({0: (0, 8)})
    for number in (1, 2, 3, 3, -1):
        lake.foreign_append(number)
    assert foreign_delete(StorageRoot(str(lake.root)), NAME, lambda each: each["id"] == 2)
    lake.handle.delete("id = 3 AND name = 'foreign'")
    found = keys_of(lake.table, lake.state(), ("id",))

    assert (9, 0, 1, 1) == (found.rows, found.keyless, found.repeated, found.surplus)
    assert [('{"id": 1}', 2)] == [(each.key, each.rows) for each in found.examples]
    assert [0, 1, 3, 4, 5, 6, 7] == sorted({*lake.ids()} - {-1})


@pytest.mark.parametrize("count", [2, 3])
def test_a_checkpoint_of_several_parts_is_read_whole(lake, tmp_path, count):
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    for start in range(0, 30, 5):
        keyed.change([row(n, n) for n in range(start, start + 5)], [start - 2] if start else [])
    lake.handle.create_checkpoint()
    log = lake.location / "_delta_log"
    [whole] = log.glob("*.checkpoint.parquet")
    table, version = pq.read_table(whole), int(whole.name[:20])
    size = -(-table.num_rows // count)
    for part in range(count):
        name = f"{version:020d}.checkpoint.{part + 1:010d}.{count:010d}.parquet"
        pq.write_table(table.slice(part * size, size), log / name)
    whole.unlink()
    hint = {"version": version, "size": table.num_rows, "parts": count}
    (log / "_last_checkpoint").write_text(json.dumps(hint))
    cold = Keyed(Lake(tmp_path, warm=True), CHAIN)
    cold.rows, cold.offset = keyed.rows, keyed.offset
    cold.change([row(7, 99)], [0, 29])

    assert keyed.live() == queried(lake.handle)


def test_a_file_whose_rows_the_log_does_not_count_is_counted_by_its_footer(lake):
    lake.create(properties=VECTORS)
    lake.land({0: (0, 10)})
    path = lake.location / "_delta_log" / f"{1:020d}.json"
    lines = entry(lake, 1)
    for each in lines:
        each.get("add", {}).pop("stats", None)
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    keyed = Keyed(Lake(lake.root.parent, warm=True), CHAIN)
    keyed.offset = 10
    keyed.change(deletes=[9, 0])
    [added] = actions(lake, 2, "add")

    assert {"numRecords": 10, "tightBounds": False} == json.loads(added["stats"])
    assert [*range(1, 9)] == lake.ids()
    keyed.change(deletes=range(10))
    assert [] == lake.ids() == lake.table.live_files(lake.state())
    assert 1 == len(actions(lake, 3, "remove"))
    assert not actions(lake, 3, "add")


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({}, "has no deletion vectors"),
        ({**VECTORS, "delta.appendOnly": "true"}, "delta.appendOnly"),
        ({**VECTORS, "delta.enableChangeDataFeed": "true"}, "a change data feed"),
    ],
)
def test_a_table_without_vectors_has_its_rows_left_alone(lake, properties, named):
    lake.create(properties=properties)
    lake.land({0: (0, 3)})
    [file] = lake.table.live_files(lake.state())
    before = sorted(lake.location.rglob("*"))
    with pytest.raises(InvalidError, match=named) as caught:
        delta(lake, RowDeletes(file.path, "", np.array([0])))

    with pytest.raises(InvalidError, match=named) as asked:
        lake.table.require_row_deletes(lake.state())

    assert ["P436"] * 2 == [caught.value.code, asked.value.code]
    assert caught.value.hint
    if properties:  # its files cannot be written again, either
        with pytest.raises(InvalidError, match=named):
            lake.table.require_row_deletes(lake.state(), RowDeleteMode.REWRITE)
    else:
        lake.table.require_row_deletes(lake.state(), RowDeleteMode.REWRITE)
    assert before == sorted(lake.location.rglob("*"))
    delta(lake)
    assert [0, 1, 2] == lake.ids()


def keyed_definition(**properties):
    return TableDefinition(ORDERS, keys=("id",), properties=properties)


@pytest.mark.parametrize(
    ("schema", "features"),
    [
        (ORDERS, {"deletionVectors"}),
        (
            Struct((*ORDERS.fields, Field("at", Kind.TIMESTAMP))),
            {"deletionVectors", "timestampNtz"},
        ),
    ],
    ids=["plain", "time stamps"],
)
def test_a_keyed_table_asks_its_readers_for_what_it_has_and_no_more(lake, schema, features):
    lake.catalog.create(NAME, TableDefinition(schema, keys=("id",)), [origin(CHAIN, {0: 0})])
    [protocol], [metadata] = actions(lake, 0, "protocol"), actions(lake, 0, "metaData")
    [info] = actions(lake, 0, "commitInfo")

    assert features == {*protocol["readerFeatures"]}
    assert {*features, "appendOnly", "invariants"} == {*protocol["writerFeatures"]}
    assert [3, 7] == [protocol["minReaderVersion"], protocol["minWriterVersion"]]
    assert {**VECTORS, "delta.deletedFileRetentionDuration": "interval 1 days"} == (
        metadata["configuration"]
    )
    assert protocol == json.loads(info["operationParameters"]["protocol"])
    assert str(lake.location) in info["operationParameters"]["location"]
    assert lake.handle.schema() is not None


def test_a_table_whose_files_are_written_again_asks_its_readers_for_nothing(lake):
    definition = replace(keyed_definition(), row_deletes=RowDeleteMode.REWRITE)
    lake.catalog.create(NAME, definition, [origin(CHAIN, {0: 0})])
    [protocol], [metadata] = actions(lake, 0, "protocol"), actions(lake, 0, "metaData")

    assert {"minReaderVersion": 1, "minWriterVersion": 2} == protocol
    assert {"delta.deletedFileRetentionDuration": "interval 1 days"} == metadata["configuration"]


def test_the_properties_of_a_keyed_table_are_those_of_the_spec_first(lake):
    wanted = {"delta.deletedFileRetentionDuration": "interval 3 days"}
    lake.catalog.create(NAME, keyed_definition(**wanted), [origin(CHAIN, {0: 0})])
    [metadata] = actions(lake, 0, "metaData")

    assert {**VECTORS, **wanted} == metadata["configuration"]


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"delta.enableDeletionVectors": "false"}, "has no deletion vectors"),
        ({"delta.appendOnly": "true"}, "delta.appendOnly"),
        ({"delta.enableChangeDataFeed": "true"}, "a change data feed"),
        ({"write.parquet.compression-codec": "zstd"}, "write.parquet.compression-codec"),
    ],
)
def test_no_keyed_table_is_made_whose_rows_could_not_be_deleted(lake, properties, named):
    with pytest.raises(InvalidError, match=named) as caught:
        lake.catalog.create(NAME, keyed_definition(**properties), [origin(CHAIN, {0: 0})])

    assert "P436" == caught.value.code
    assert lake.table is None


def test_of_two_that_make_a_keyed_table_at_once_the_first_one_s_stays(lake, monkeypatch):
    lake.catalog.create(NAME, keyed_definition(), [origin(CHAIN, {0: 7})])
    seen = DeltaCatalog._is_there
    looks = iter([False])
    monkeypatch.setattr(
        DeltaCatalog, "_is_there", lambda catalog, name: next(looks, seen(catalog, name))
    )
    table = lake.catalog.create(NAME, keyed_definition(), [origin(CHAIN, {0: 0})])

    assert [] == [*looks]
    assert [7] == [int(each) for each in table.state(CHAIN).landed.offsets.values()]


@pytest.mark.parametrize("is_there", [True, False])
def test_whether_a_keyed_table_was_made_is_found_out_where_no_answer_came(
    lake, monkeypatch, is_there
):
    put = objects.put

    def unanswered(*given):
        if is_there:
            put(*given)
        raise OSError("no answer came")

    monkeypatch.setattr(objects, "put", unanswered)
    if not is_there:
        with pytest.raises(UnavailableError) as caught:
            lake.catalog.create(NAME, keyed_definition(), [origin(CHAIN, {0: 0})])
        assert "P430" == caught.value.code
    else:
        lake.catalog.create(NAME, keyed_definition(), [origin(CHAIN, {0: 0})])
    assert is_there is (lake.catalog.load(NAME) is not None)


def test_a_delta_without_row_deletes_is_an_append(lake):
    lake.create(properties=VECTORS)
    Keyed(lake, CHAIN).change([row(n, n) for n in range(3)])
    [info] = actions(lake, 1, "commitInfo")

    assert "STREAMING UPDATE" == info["operation"]
    assert not actions(lake, 1, "remove")


def test_the_least_and_greatest_rows_may_be_deleted(lake):
    """Bounds stay as they are then, and say that they are wide."""
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    keyed.change([row(n, n) for n in range(10)])
    keyed.change(deletes=[0, 1, 9])

    assert [7, 2, 8] == counted(lake.handle)
    assert [] == queried(lake.handle, "id >= 9")
    assert keyed.live() == queried(lake.handle)


def test_a_merge_reports_what_it_did(lake):
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    keyed.change([row(n, n) for n in range(6)])
    keyed.change([row(1, 7), row(9, 8)], [2, 77])
    [info] = actions(lake, 2, "commitInfo")
    metrics = info["operationMetrics"]

    assert ("MERGE", False) == (info["operation"], info["isBlindAppend"])
    assert ["2", "2", "2", "1", "1"] == [
        metrics[name]
        for name in (
            "numTargetRowsInserted",
            "numTargetRowsDeleted",
            "numTargetFilesAdded",
            "numTargetFilesRemoved",
            "numTargetDeletionVectorsAdded",
        )
    ]
    assert lake.handle.history(1)[0]["operation"] == "MERGE"


def test_nothing_is_written_for_row_deletes_that_are_refused(lake):
    lake.create(properties=VECTORS)
    lake.land({0: (0, 3)})
    [file] = lake.table.live_files(lake.state())
    before = sorted(lake.location.rglob("*"))
    for positions in ([], [-1], [3], [1, 1], [2, 0]):
        with pytest.raises(BugError, match="not live") as caught:
            delta(lake, RowDeletes(file.path, "", np.array(positions, np.int64)))
        assert "P707" == caught.value.code
    one = RowDeletes(file.path, "", np.array([0]))
    with pytest.raises(BugError, match="not live"):
        delta(lake, one, one)

    assert before == sorted(lake.location.rglob("*"))


def test_a_conflict_leaves_no_vector_file_where_it_was_seen_before(lake):
    lake.create(properties=VECTORS)
    Keyed(lake, CHAIN).change([row(n, n) for n in range(9_000)])
    state = lake.state()
    [file] = lake.table.live_files(state)
    deletes = RowDeletes(file.path, "", np.arange(0, 9_000, 2))
    lake.foreign_append()
    commit = lake.prepare(state, {0: (9_000, 9_001)}, files=(), kind=CommitKind.ROW_DELTA)
    with pytest.raises(ConflictError):
        lake.table.commit(state, commit, retain=1, row_deletes=[deletes])

    assert [] == vectors(lake)
    assert 9_001 == len(lake.ids())


def test_sources_of_a_file_are_those_of_its_live_rows_and_it_is_altered(lake):
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    keyed.change([row(n, n) for n in range(5)])
    keyed.change([row(n, n) for n in range(5, 10)], [0, 2])
    found = lake.table.file_sources(lake.state(), COLUMNS, {("orders", 0): 0})

    assert {(True, 3, 1, 5), (False, 5, 5, 10)} == {
        (each.altered, each.found.rows, *_range(each.found)) for each in found
    }


def _range(found):
    [covered] = found.ranges.values()
    return covered.start, covered.stop


def test_what_metadata_says_of_files_with_vectors_is_what_they_hold(lake):
    lake.create(schema=WIDE, properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    keyed.change([wide(n, n) for n in range(50)])
    keyed.change([wide(n, n + 50) for n in range(20)], [*range(40, 50)])
    audit = values_of(lake.catalog, NAME)

    assert (2, ()) == (audit.files, audit.mismatches)


def test_live_files_are_those_of_the_state_that_is_asked_about(lake):
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    states = []
    for turn in range(4):
        keyed.change([row(10 * turn + n, 10 * turn + n) for n in range(5)], [10 * turn - 9])
        states.append(lake.state())
    warm = [lake.table.live_files(each) for each in states]
    back = [lake.table.live_files(each) for each in reversed(states)]
    cold = [Lake(lake.root.parent).table.live_files(each) for each in states]

    assert [1, 2, 3, 4] == [len(each) for each in warm]
    for each, other, fresh in zip(warm, reversed(back), cold, strict=True):
        assert sorted(each, key=str) == sorted(other, key=str) == sorted(fresh, key=str)


def test_live_files_of_a_table_that_was_made_again_are_not_those_of_the_former(lake):
    lake.create(properties=VECTORS)
    lake.land({0: (0, 3)})
    state = lake.state()
    shutil.rmtree(lake.location)
    lake.create(properties=VECTORS)
    Lake(lake.root.parent).land({0: (0, 5)})
    with pytest.raises(UnavailableError) as caught:
        lake.table.live_files(state)

    assert "P402" == caught.value.code


def test_files_of_a_state_that_are_read_one_after_another_are_listed_once(lake):
    lake.create(properties=VECTORS)
    lake.land({0: (0, 3)})
    view = lake.state().handle.view
    live = LiveMap(NAME, StorageRoot(str(lake.root)))

    assert 1 == len(live.files(view))
    assert live.files(view) is live.files(view)


def test_a_path_that_is_live_with_two_vectors_is_damage(lake):
    """So it is after a `remove` without the vector, which cancels nothing."""
    lake.create(properties=VECTORS)
    keyed = Keyed(lake, CHAIN)
    keyed.change([row(n, n) for n in range(5)])
    keyed.change(deletes=[0])
    lines = entry(lake, 2)
    [add] = [each["add"] for each in lines if "add" in each]
    second = {**add, "deletionVector": {**add["deletionVector"], "cardinality": 2}}
    second["deletionVector"]["offset"] += 1
    path = lake.location / "_delta_log" / f"{3:020d}.json"
    path.write_text(json.dumps({"add": second}) + "\n")
    with pytest.raises(InvalidError, match="is live twice") as caught:
        lake.table.live_files(lake.state())

    assert "P438" == caught.value.code


class TestWitnesses:
    """A row delta that history is cut off above vouches by what it left (docs/design/0243)."""

    @pytest.fixture
    def keyed(self, lake):
        lake.create(properties=VECTORS)
        keyed = Keyed(lake, CHAIN)
        keyed.change([row(n, n) for n in range(5)])
        return keyed

    def cut(self, lake):
        """Let others' commits be the newest, and clean all entries before the last one away."""
        lake.foreign_append(-1)
        lake.foreign_append(-2)
        lake.clean_up_log()
        return Lake(lake.root.parent).state()

    def test_a_commit_of_deletes_is_vouched_for_by_its_vector(self, lake, keyed):
        keyed.change(deletes=[1])
        state = self.cut(lake)

        assert Verdict.AGREED is state.verdict
        assert "newest file landed is live" in state.evidence

    def test_a_vector_that_others_replaced_vouches_no_more(self, lake, keyed):
        keyed.change(deletes=[1])
        assert foreign_delete(StorageRoot(str(lake.root)), NAME, lambda each: each["id"] == 2)

        assert Verdict.UNCERTAIN is self.cut(lake).verdict

    def test_a_commit_with_files_is_vouched_for_by_them_whatever_is_deleted_of_them(
        self, lake, keyed
    ):
        keyed.change([row(1, 5), row(2, 6)])
        assert foreign_delete(StorageRoot(str(lake.root)), NAME, lambda each: each["id"] == 2)

        assert Verdict.AGREED is self.cut(lake).verdict

    @pytest.mark.parametrize("deletes", [[77], range(5)])
    def test_a_commit_that_left_nothing_is_vouched_for_by_nothing(self, lake, keyed, deletes):
        """Absent deletes: the file of the commit before them is live, and says nothing of them."""
        if deletes == [77]:
            assert foreign_delete(StorageRoot(str(lake.root)), NAME, lambda each: each["id"] == 1)
        keyed.change(deletes=deletes)
        assert Verdict.AGREED is lake.state().verdict

        assert Verdict.UNCERTAIN is self.cut(lake).verdict

    def test_deletes_that_were_rolled_back_do_not_agree(self, lake, keyed):
        keyed.change(deletes=[1])
        lake.handle.restore(1)

        assert Verdict.ROLLED_BACK is lake.state().verdict
        assert Verdict.AGREED is not self.cut(lake).verdict
        assert [0, 1, 2, 3, 4] == lake.ids()[2:]


def delta(lake, *row_deletes, files=()):
    """Land a row delta of one more offset."""
    state = lake.state()
    reached = int(next(iter(state.landed.offsets.values())))
    given = {"files": files, "kind": CommitKind.ROW_DELTA}
    commit = lake.prepare(state, {0: (reached, reached + 1)}, **given)
    return lake.table.commit(state, commit, retain=25, row_deletes=row_deletes)
