"""Files by partition: few of them, large row groups, bounded writers and memory, honest errors."""

import errno
import resource
import signal
import statistics
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import UnavailableError
from penstock.files import FileOptions, ParquetEncoding, PartitionedWriter

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])


class Listener:
    def __init__(self):
        self.points = []

    def __call__(self, event):
        raise AssertionError(event)

    def passed(self, point):
        self.points.append(point)


class World:
    def __init__(self, directory: Path, schema: pa.Schema = SCHEMA, **options):
        self.directory = directory
        self.listener = Listener()
        self.opened = 0
        self.writer = PartitionedWriter(
            encoding=ParquetEncoding(schema, FileOptions(**options)),
            filesystem=fs.LocalFileSystem(),
            path_of=self.path,
            partition_of=by_part,
            observer=self.listener,
        )

    def path(self, _partition, _ending):
        self.opened += 1
        return f"{self.directory}/data/{self.opened:05d}.parquet"

    @property
    def open_most(self):
        open_now = most = 0
        for point in self.listener.points:
            open_now += (point is CrashPoint.FILE_OPENED) - (point is CrashPoint.FILE_CLOSED)
            most = max(most, open_now)
        return most


def by_part(batch):
    """Split by `part`, the column that the files do not have."""
    for part in pc.unique(batch["part"]).to_pylist():
        chosen = batch.filter(pc.equal(batch["part"], part))
        yield (part,), chosen.drop_columns(["part"])


def rows(start, count, parts, width=20):
    return pa.record_batch(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "text": [f"{i:0{width}d}" for i in range(start, start + count)],
            "part": [i % parts for i in range(start, start + count)],
        }
    )


def ids(written):
    return sorted(i for each in written for i in pq.read_table(each.path)["id"].to_pylist())


def test_rows_come_back_by_partition_with_the_writers_own_footer(tmp_path):
    world = World(tmp_path)
    world.writer.write(rows(0, 100, 2))
    world.writer.write(rows(100, 100, 2))
    written = world.writer.close()

    assert [((0,), 100), ((1,), 100)] == [(each.partition, each.records) for each in written]
    assert list(range(200)) == ids(written)
    for each in written:
        assert Path(each.path).stat().st_size == each.size_bytes
        assert pq.read_metadata(each.path).row_group(0).to_dict() == (
            each.metadata.row_group(0).to_dict()
        )
        assert pq.read_table(each.path)["id"].to_pylist() == sorted(
            pq.read_table(each.path)["id"].to_pylist()
        )


def test_nothing_written_makes_no_file(tmp_path):
    world = World(tmp_path)
    world.writer.write(rows(0, 0, 1))

    assert [] == world.writer.close()
    assert [] == list(tmp_path.iterdir())


def test_24_partitions_in_batches_of_50_k_rows_give_row_groups_of_100_k_rows(tmp_path):
    world = World(tmp_path)
    batch = rows(0, 50_000, 24, width=60)
    for _ in range(52):
        world.writer.write(batch)
    written = world.writer.close()

    groups = [
        each.metadata.row_group(i).num_rows
        for each in written
        for i in range(each.metadata.num_row_groups)
    ]
    assert 24 == len(written)
    assert statistics.median(groups) >= 100_000
    assert 52 * 50_000 == sum(groups)


def test_a_thousand_partitions_are_written_with_bounded_writers(tmp_path):
    world = World(tmp_path, open_writers=8)
    for start in range(0, 20_000, 5_000):
        world.writer.write(rows(start, 5_000, 1_000))
    written = world.writer.close()

    assert 1_000 == len(written)
    assert 1 == world.open_most
    assert list(range(20_000)) == ids(written)


def test_under_memory_pressure_writers_and_buffers_stay_bounded_and_no_row_is_lost(tmp_path):
    world = World(tmp_path, open_writers=8, buffer_bytes=50_000)
    for start in range(0, 20_000, 1_000):
        world.writer.write(rows(start, 1_000, 40))
        assert world.writer._buffered_bytes <= 50_000
    written = world.writer.close()

    assert world.open_most == 8
    assert list(range(20_000)) == ids(written)


def test_a_few_rows_of_a_rare_partition_do_not_keep_batches_alive(tmp_path):
    world = World(tmp_path)
    world.writer._partition_of = lambda batch: [((0,), batch.select(["id", "text"]).slice(7, 1))]
    before = pa.total_allocated_bytes()
    for start in range(0, 500_000, 50_000):
        world.writer.write(rows(start, 50_000, 1))

    assert pa.total_allocated_bytes() - before < 200_000
    assert [10] == [each.records for each in world.writer.close()]


def test_files_roll_at_the_target_size(tmp_path):
    world = World(tmp_path, target_file_bytes=100_000, row_group_bytes=200_000, compression="none")
    for start in range(0, 50_000, 5_000):
        world.writer.write(rows(start, 5_000, 1))
    written = world.writer.close()

    assert list(range(50_000)) == ids(written)
    assert len(written) <= -(-sum(each.size_bytes for each in written) // 100_000)
    assert all(100_000 <= each.size_bytes <= 250_000 for each in written[:-1])


def test_a_batch_larger_than_a_row_group_is_cut(tmp_path):
    world = World(tmp_path, row_group_bytes=100_000)
    world.writer.write(rows(0, 50_000, 1))
    (written,) = world.writer.close()

    groups = [written.metadata.row_group(i) for i in range(written.metadata.num_row_groups)]
    assert 16 == len(groups)
    assert max(group.num_rows for group in groups) - min(group.num_rows for group in groups) <= 16


def test_each_file_passes_its_points(tmp_path):
    world = World(tmp_path)
    world.writer.write(rows(0, 10, 1))
    assert [] == world.listener.points

    world.writer.close()
    assert [
        CrashPoint.FILE_OPENED,
        CrashPoint.FILE_WRITTEN,
        CrashPoint.FILE_CLOSED,
    ] == world.listener.points


def test_abandon_finishes_and_deletes_nothing(tmp_path):
    world = World(tmp_path, row_group_bytes=1_000)
    world.writer.write(rows(0, 1_000, 2))
    world.writer.abandon()

    left = sorted(tmp_path.rglob("*.parquet"))
    assert 2 == len(left)
    for path in left:
        with pytest.raises(pa.ArrowInvalid):
            pq.read_metadata(path)


def test_a_full_disk_is_reported_with_the_path(tmp_path):
    """A file size limit of the process are in for the disk: the write itself fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    world = World(tmp_path, row_group_bytes=50_000, compression="none")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        with pytest.raises(UnavailableError) as caught:
            world.writer.write(rows(0, 50_000, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    world.writer.abandon()

    assert "P480" == caught.value.code
    assert f"{tmp_path}/data/00001.parquet" in caught.value.message
    assert errno.EFBIG == caught.value.__cause__.errno


def test_a_place_that_may_not_be_written_is_reported_with_the_path(tmp_path):
    (tmp_path / "data").write_text("a file is where the directory should be")
    world = World(tmp_path)
    world.writer.write(rows(0, 10, 1))
    with pytest.raises(UnavailableError) as caught:
        world.writer.close()

    assert "P481" == caught.value.code
    assert f"{tmp_path}/data/00001.parquet" in caught.value.message


def test_field_ids_of_the_schema_reach_the_file(tmp_path):
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "7"}),
            pa.field("text", pa.string(), metadata={"PARQUET:field_id": "9"}),
        ]
    )
    world = World(tmp_path, schema)
    world.writer.write(rows(0, 10, 1))
    (written,) = world.writer.close()

    read = pq.ParquetFile(written.path).schema_arrow
    assert [b"7", b"9"] == [field.metadata[b"PARQUET:field_id"] for field in read]


@pytest.mark.parametrize(
    ("codec", "count", "has"), [("zstd", 999, False), ("zstd", 1000, True), ("snappy", 999, True)]
)
def test_of_a_compressed_file_of_few_rows_only_texts_have_dictionaries(tmp_path, codec, count, has):
    world = World(tmp_path, compression=codec)
    world.writer.write(rows(0, count, 1))
    (file,) = world.writer.close()

    group = pq.read_metadata(file.path).row_group(0)
    found = {group.column(at).path_in_schema: group.column(at).has_dictionary_page for at in (0, 1)}
    assert {"id": has, "text": True} == found


def test_duckdb_finds_nulls_beside_one_text_in_a_small_file(tmp_path):
    """DuckDB 2.0 takes all rows for null where a plain chunk of bytes has equal bounds."""
    held = pa.struct({"b": pa.binary()})
    schema = pa.schema({"id": pa.int64(), "text": pa.string(), "held": held})
    world = World(tmp_path, schema, compression="zstd")
    texts = [None, "a"] * 50
    members = [{"b": each and each.encode()} for each in texts]
    part = pa.field("part", pa.int64())
    columns = [pa.array(range(100)), pa.array(texts), pa.array(members, held), pa.array([0] * 100)]
    world.writer.write(pa.record_batch(columns, schema=schema.append(part)))
    (file,) = world.writer.close()

    asked = "SELECT count(id) FROM (SELECT id FROM read_parquet($1) WHERE {} IS NULL)"
    with duckdb.connect() as reader:
        for column in ("text", "held.b"):
            found = reader.execute(asked.format(column), [str(file.path)]).fetchone()
            assert found == (50,), column
