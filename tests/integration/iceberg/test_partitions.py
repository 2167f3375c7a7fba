"""Each partition transform, written by us and read back by PyIceberg with the right values."""

import datetime as dt
import uuid
from decimal import Decimal as Number

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors.iceberg.files.manifests import MERGE_AT
from penstock.connectors.iceberg.schema.types import file_schema
from penstock.core.errors import InvalidError
from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Struct
from penstock.testing.prepared import prepared

ROWS = Struct(
    (
        Field("id", Kind.LONG, required=True),
        Field("small", Kind.INT),
        Field("name", Kind.STRING),
        Field("raw", Kind.BINARY),
        Field("key", Kind.UUID),
        Field("code", Fixed(3)),
        Field("price", Decimal(9, 2)),
        Field("ok", Kind.BOOLEAN),
        Field("on", Kind.DATE),
        Field("at", Kind.TIME),
        Field("local", Kind.TIMESTAMP),
        Field("ts", Kind.TIMESTAMPTZ),
        Field("f", Kind.DOUBLE),
        Field("place", Struct((Field("city", Kind.STRING), Field("zip", Kind.INT)))),
        Field("tags", List(Kind.STRING)),
        Field("more", Map(Kind.STRING, Kind.LONG)),
    )
)
KEY = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
TS = dt.datetime(2017, 11, 16, 22, 31, 8, tzinfo=dt.UTC)


def row(**given):
    plain = {
        "id": 34,
        "small": -5,
        "name": "iceberg",
        "raw": b"\x00\x01\x02\x03",
        "key": KEY.bytes,
        "code": b"abc",
        "price": Number("14.20"),
        "ok": True,
        "on": dt.date(2017, 11, 16),
        "at": dt.time(22, 31, 8),
        "local": TS.replace(tzinfo=None),
        "ts": TS,
        "f": 1.5,
        "place": {"city": "Zürich", "zip": 8001},
        "tags": ["a", None],
        "more": [("x", 1)],
    }
    return {**plain, **given}


def nulls():
    return {**dict.fromkeys(row()), "id": 0}


def arrow(state, table, rows):
    schema = file_schema(table.schema())
    plain = pa.schema(
        [field.with_type(pa.binary(16)) if field.name == "key" else field for field in schema]
    )
    return pa.RecordBatch.from_pylist(rows, schema=plain)


def landed(lake, partition_by, rows, batches=1):
    table = lake.create(ROWS, partition_by)
    state = table.state(lake.chain)
    files = []
    for start in range(batches):
        files += lake.write(state, arrow(state, lake.foreign(), rows[start::batches]))
    commit = prepared(
        lake.chain, {0: (0, len(rows))}, files=files, uuid=state.uuid, schema_id=state.schema_id
    )
    table.commit(state, commit, retain=25)
    return files


# Expected values are those of the Iceberg specification, appendix B, and PyIceberg's transforms.
CASES = [
    ("bucket(16, id)", "id_bucket", 2017239379 % 16),
    ("bucket(16, small)", "small_bucket", None),
    ("bucket(16, name)", "name_bucket", 1210000089 % 16),
    ("bucket(16, raw)", "raw_bucket", (-188683207 & 0x7FFFFFFF) % 16),
    ("bucket(16, key)", "key_bucket", 1488055340 % 16),
    ("bucket(16, price)", "price_bucket", (-500754589 & 0x7FFFFFFF) % 16),
    ("bucket(16, on)", "on_bucket", (-653330422 & 0x7FFFFFFF) % 16),
    ("bucket(16, at)", "at_bucket", (-662762989 & 0x7FFFFFFF) % 16),
    ("bucket(16, ts)", "ts_bucket", (-2047944441 & 0x7FFFFFFF) % 16),
    ("bucket(16, local)", "local_bucket", (-2047944441 & 0x7FFFFFFF) % 16),
    ("truncate(10, id)", "id_trunc", 30),
    ("truncate(10, small)", "small_trunc", -10),
    ("truncate(3, name)", "name_trunc", "ice"),
    ("truncate(2, raw)", "raw_trunc", b"\x00\x01"),
    ("truncate(50, price)", "price_trunc", Number("14.00")),
    ("year(ts)", "ts_year", 47),
    ("month(ts)", "ts_month", 574),
    ("day(ts)", "ts_day", 17486),
    ("hour(ts)", "ts_hour", 419686),
    ("day(on)", "on_day", 17486),
    ("day(local)", "local_day", 17486),
    ("identity(name)", "name", "iceberg"),
    ("name", "name", "iceberg"),
    ("on", "on", 17486),
    ("ts", "ts", 1510871468000000),
    ("price", "price", Number("14.20")),
    ("ok", "ok", True),
    ("place.city", "place_city", "Zürich"),
    ("truncate(2, place.city)", "place_city_trunc", "Zü"),
]


@pytest.mark.parametrize(("text", "name", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_transform_is_written_and_read_back(lake, text, name, expected):
    rows = [row(), nulls(), row(id=34)]
    landed(lake, [text], rows)
    foreign = lake.foreign()
    (field,) = foreign.spec().fields
    source = foreign.schema().find_field(field.source_id)
    tasks = list(foreign.scan().plan_files())
    got = {task.file.partition[0]: task.file.record_count for task in tasks}

    assert name == field.name
    if expected is None:
        expected = field.transform.transform(source.field_type)(row()[source.name])
    empty = 0 if source.name == "id" else None
    if source.name == "id":
        empty = field.transform.transform(source.field_type)(0)
    assert {expected: 2, empty: 1} == got
    assert 3 == foreign.scan().to_arrow().num_rows


@pytest.mark.parametrize("text", ["key", "identity(code)"])
def test_partitions_that_readers_misread_are_refused(lake, text):
    """Spark cannot read a table partitioned by fixed, and finds other UUIDs than it should."""
    with pytest.raises(InvalidError, match="bucket") as caught:
        lake.create(ROWS, [text])

    assert "P434" == caught.value.code


def test_a_filter_on_the_source_column_prunes_partitions(lake):
    rows = [row(ts=TS + dt.timedelta(days=n), id=n) for n in range(5)]
    landed(lake, ["day(ts)", "bucket(4, id)"], rows)
    foreign = lake.foreign()
    found = foreign.scan(row_filter="ts < '2017-11-18T00:00:00+00:00'")

    assert 2 == len(list(found.plan_files()))
    assert [0, 1] == sorted(found.to_arrow()["id"].to_pylist())
    assert [3] == foreign.scan(row_filter="id = 3").to_arrow()["id"].to_pylist()


def test_rows_of_all_types_come_back_equal(lake):
    rows = [row(), nulls(), row(id=9, f=float("-inf"), tags=[], more=[])]
    files = landed(lake, [], rows)
    read = lake.foreign().scan().to_arrow().to_pylist()

    wanted = [{**each, "key": each["key"] and uuid.UUID(bytes=each["key"])} for each in rows]
    assert wanted == read
    schema = pq.read_schema(files[0].path.removeprefix("file://"))
    assert b"1" == schema.field("id").metadata[b"PARQUET:field_id"]


def test_a_delete_by_others_takes_no_nan_with_it(lake):
    landed(lake, [], [row(id=1, f=1.0), row(id=2, f=float("nan")), row(id=3, f=2.0)])
    lake.foreign().delete("f < 10")

    assert [2] == lake.ids()


def test_no_part_of_a_path_comes_from_a_record(lake):
    files = landed(lake, ["name"], [row(name="../../../etc/passwd"), row(name="a/b?c#d\x00")])

    assert {"data"} == {each.path.rsplit("/", 2)[1] for each in files}
    assert all(each.path.rsplit("/", 1)[1].startswith("shop-1-0-") for each in files)
    names = {task.file.partition[0] for task in lake.foreign().scan().plan_files()}
    assert {"../../../etc/passwd", "a/b?c#d\x00"} == names


def test_one_file_for_each_partition_and_task_whatever_the_batches(lake):
    rows = [row(id=n) for n in range(40)]
    files = landed(lake, ["bucket(4, id)"], rows, batches=1)

    assert 4 == len(files)
    assert 40 == sum(each.record_count for each in files)
    assert {"id_bucket=0", "id_bucket=1", "id_bucket=2", "id_bucket=3"} == {
        each.partition for each in files
    }


def entries_by_fastavro(lake):
    """Return what manifests record of each live file, and the most files in one."""
    foreign = lake.foreign()
    found, most = {}, 0
    for manifest in foreign.current_snapshot().manifests(foreign.io):
        with foreign.io.new_input(manifest.manifest_path).open() as stream:
            entries = [each["data_file"] for each in fastavro.reader(stream)]
        found |= {each["file_path"]: each for each in entries}
        most = max(most, len(entries))
    return found, most


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_merged_manifest_keeps_what_was_recorded_of_its_files(lake, version):
    """Partitioned by columns of all types at once; half of the files are another writer's."""
    others = ("key", "code")  # no table of ours is partitioned by these
    columns = [each.name for each in ROWS.fields[1:-3] if each.name not in others]
    table = lake.create(ROWS, columns, {"format-version": version})
    with lake.foreign().update_spec() as change:
        for name in others:
            change.add_identity(name)
    entries = {}
    for turn in range(MERGE_AT + 1):
        given = nulls() if turn == 3 else row(f=(0.1, 1e300, -1 / 3)[turn % 3])
        if turn % 2:
            foreign = lake.foreign()
            foreign.append(pa.Table.from_batches([arrow(None, foreign, [given])]))
        else:
            state = table.state(lake.chain)
            files = lake.write(state, arrow(state, lake.foreign(), [given]))
            more = {"uuid": state.uuid, "schema_id": state.schema_id}
            commit = prepared(lake.chain, {0: (turn // 2, turn // 2 + 1)}, files=files, **more)
            table.commit(state, commit, retain=25)
        found, most = entries_by_fastavro(lake)
        entries |= {path: each for path, each in found.items() if path not in entries}

    assert MERGE_AT == most
    assert entries == entries_by_fastavro(lake)[0]
