"""A short storm, and proof that its checkers can fail; `make storm` lets it blow for hours."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record as PartitionValues
from tests.integration.delta.foreign_delete import foreign_delete
from tests.processes.broker import Cluster
from tests.processes.process import KILLED
from tests.storm.judgement import by_spark, judgement_of, mirrored, read_otherwise
from tests.storm.other_writers import OtherWriters
from tests.storm.plan import Fault, digest, plan
from tests.storm.report import Report, lines
from tests.storm.stage import KEY, Stage, opened
from tests.storm.storm import LONG, SHORT, storm
from tests.storm.watch import NOWHERE, SHIFT, Contents, Watch, wrong
from tests.story.oracle import Coordinate, Record, committed_records

from penstock.connectors.delta.locations import StorageRoot
from penstock.core.statistics import Fault as Wrong
from penstock.testing.sent import Sent

OF_COLUMNS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
"""What a manifest says of the columns of a file."""
SECONDS = float(os.environ.get("STORM_SECONDS", "30"))
SEED = int(os.environ.get("STORM_SEED", "1"))

Blown = tuple[Stage, Report]
_COPY = Record(Coordinate("into", 0, 3), 7, b"k", b"a", (("h", b"1"),))


@pytest.fixture(scope="module")
def blown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blown]:
    with opened(tmp_path_factory.mktemp("storm"), SHORT.pipes) as stage:
        yield stage, storm(stage, SHORT, SECONDS, SEED)


@pytest.mark.timeout(600)
def test_nothing_is_lost_or_doubled_in_a_storm(blown: Blown) -> None:
    stage, report = blown
    text = "\n".join(lines(report.data()))
    print(text)

    assert [] == report.wrong, text
    assert report.judgement.records > 1_000
    assert report.checks > 2
    outcomes = {each for pipe in stage.pipes for each in pipe.outcomes}
    assert outcomes <= {each for log in report.logs.values() for each in log.commits}
    assert sum(report.faults.values()) > 10
    assert any(life.code == KILLED for log in report.logs.values() for life in log.lives)


# What is planted after the storm: each gives a check of the report that finds it.

Check = Callable[[Report], bool]


def a_duplicate(stage: Stage) -> Check:
    name = "lake.storm.mixed"
    table = stage.iceberg(name)
    assert table is not None
    rows = table.scan().to_arrow()
    table.append(rows.filter(pc.is_valid(rows["_kafka_offset"])).slice(0, 1))

    assert {"doubled"} == _seen(stage)
    return lambda report: ["doubled"] == _kinds(report, name) and 0 < report.counted["doubled"]


def a_loss(stage: Stage) -> Check:
    name = "delta.storm.whole"
    table = stage.delta(name)
    assert table is not None
    rows = pa.table(table.to_pyarrow_table())
    gone = pc.and_(
        pc.equal(rows["_kafka_partition"], 0), pc.equal(rows["_kafka_offset"], _first(rows))
    )
    write_deltalake(
        table, rows.filter(pc.invert(pc.fill_null(gone, fill_value=False))), mode="overwrite"
    )

    assert "lost" in _seen(stage)
    return lambda report: ["lost"] == _kinds(report, name) and 0 < report.counted["lost"]


def a_row_that_comes_back_into_a_keyed_table(stage: Stage) -> Check:
    """As a resolver leaves it that does not find the former row of a key."""
    name = "lake.storm.keyed"
    table = stage.iceberg(name)
    assert table is not None
    rows = table.scan().to_arrow()
    kept = {*map(_place, rows.to_pylist())}
    every = pa.table(stage.iceberg("lake.storm.mixed").scan().to_arrow())
    former = next(
        n
        for n, row in enumerate(every.to_pylist())
        if row[KEY] is not None and _place(row) not in kept
    )
    table.append(every.slice(former, 1).select(rows.schema.names).cast(rows.schema))
    return lambda report: ["foreign"] == _kinds(report, name)


def a_row_that_is_missing_in_a_keyed_table(stage: Stage) -> Check:
    name = "delta.storm.keyed"
    at = _place(stage.rows(name)[0])
    root = StorageRoot(str(stage.directory / "delta"))
    assert foreign_delete(root, name.removeprefix("delta."), lambda row: at == _place(row))

    def found(report: Report) -> bool:
        [each] = [each for each in report.judgement.findings if each.table == name]
        return at == each.at[1:] and each.kind in {"lost", "not landed"}

    return found


def an_unknown_file(stage: Stage) -> Check:
    place = stage.place("delta.storm.split")
    strays = {
        str(place / name)
        for name in ("stray.parquet", "other-maintenance-0c0ffee0-00112233445566aa.parquet")
    }
    for stray in strays:
        Path(stray).write_bytes(b"PAR1")
    return lambda report: strays == set(report.judgement.leftovers.unknown)


def wrong_metadata_of_an_iceberg_file(stage: Stage) -> Check:
    table = stage.iceberg("lake.storm.mixed")
    assert table is not None
    file = next(iter(table.scan().plan_files())).file
    number = table.schema().find_field("id").field_id
    said = {each: dict(getattr(file, each)) for each in OF_COLUMNS}
    said["upper_bounds"][number] = (-(10**9)).to_bytes(8, "little", signed=True)
    said["null_value_counts"][number] = 1
    changed = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.file_path,
        file_format=FileFormat.PARQUET,
        partition=PartitionValues(),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        **said,
    )
    changed.spec_id = file.spec_id
    with table.transaction() as transaction:
        with transaction.update_snapshot().overwrite() as change:
            change.delete_data_file(file)
        with transaction.update_snapshot().fast_append() as change:
            change.append_data_file(changed)
    return lambda report: {Wrong.UPPER, Wrong.NULLS} <= _faults(report, Path(file.file_path).name)


def wrong_metadata_of_a_delta_file(stage: Stage) -> Check:
    bounds = {"minValues": {"id": 10**9}, "maxValues": {"id": 10**9}}
    statistics = {**bounds, "nullCount": {"_kafka_offset": 10**9}}
    file = _added_again(stage, "delta.storm.whole", statistics, {})
    return lambda report: {Wrong.LOWER, Wrong.NULLS} <= _faults(report, file)


def another_partition_value(stage: Stage) -> Check:
    """The files of Delta tables do not hold it: the rows differ from Kafka's."""
    name = "delta.storm.split"
    _added_again(stage, name, {}, {"shop": "another"})
    return lambda report: bool(_kinds(report, name)) and 0 < report.counted["otherwise wrong"]


PLANTED = (
    a_duplicate,
    a_loss,
    a_row_that_comes_back_into_a_keyed_table,
    a_row_that_is_missing_in_a_keyed_table,
    an_unknown_file,
    wrong_metadata_of_an_iceberg_file,
    wrong_metadata_of_a_delta_file,
    another_partition_value,
)


def test_a_record_that_spark_does_not_read_turns_the_report_red(blown: Blown) -> None:
    """One that is committed after Spark has read the mirror, as if Spark had passed it over."""
    stage, report = blown
    [topic] = report.judgement.published
    read = by_spark(stage, topic)
    assert [] == read_otherwise(topic, committed_records(stage.direct, [topic]), read)
    Cluster(stage.direct).begin(topic, 0, [Sent(b"planted")]).commit()

    found = read_otherwise(topic, committed_records(stage.direct, [topic]), read)
    assert ["1 records are others by Spark"] == [each.split(": ")[1] for each in found]
    judgement = replace(report.judgement, spark_differs=found)
    assert replace(report, judgement=judgement).wrong == found


@pytest.fixture(scope="module")
def judged(blown: Blown) -> tuple[Mapping[str, Check], Report]:
    """Plant all faults, each of which is found by itself, and judge once: it takes a while."""
    stage, report = blown
    checks = {plant.__name__: plant(stage) for plant in PLANTED}
    lives = [life for log in report.logs.values() for life in log.lives]
    others = replace(OtherWriters(stage), deleted=report.deleted)
    judgement = judgement_of(stage, lives, others, spark=False)
    return checks, replace(report, judgement=judgement)


@pytest.mark.parametrize("name", [plant.__name__ for plant in PLANTED])
def test_what_is_planted_after_the_storm_turns_the_report_red(
    judged: tuple[Mapping[str, Check], Report], name: str
) -> None:
    checks, report = judged

    assert checks[name](report), "\n".join(report.wrong)
    assert "RED" in lines(report.data())[0]


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["_kafka_partition"], row["_kafka_offset"]


def _added_again(
    stage: Stage, table: str, statistics: dict[str, Any], partition: dict[str, str]
) -> str:
    """Put a file's `add` into the log once more, with other statistics; return the file's name."""
    handle = stage.delta(table)
    assert handle is not None
    file = pa.table(handle.get_add_actions()).to_pylist()[0]
    add = {
        "path": file["path"],
        "partitionValues": partition,
        "size": file["size_bytes"],
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": file["num_records"], **statistics}),
    }
    log = stage.place(table) / "_delta_log" / f"{handle.version() + 1:020d}.json"
    log.write_text(json.dumps({"add": add}) + "\n")
    return str(file["path"])


def _kinds(report: Report, table: str) -> list[str]:
    """Name what is wrong with the rows of a table."""
    return [each.kind for each in report.judgement.findings if each.table == table]


def _faults(report: Report, file: str) -> set[Wrong]:
    """Name what the report finds wrong with the metadata of a file."""
    found = [each for each in report.wrong if each.endswith(file)]
    return {fault for fault in Wrong if any(f": {fault} of " in each for each in found)}


def _seen(stage: Stage) -> set[str]:
    watch = Watch(stage, every=60.0)
    with watch.watching():
        pass
    return {each.kind for each in watch.sights}


def _first(rows: pa.Table) -> int:
    return pc.min(rows.filter(pc.equal(rows["_kafka_partition"], 0))["_kafka_offset"]).as_py()


@pytest.mark.parametrize(
    ("copied", "kinds"),
    [
        ("abc", []),
        ("ac", ["lost"]),
        ("abcb", ["doubled"]),
        ("abcx", ["foreign"]),
        ("acb", ["out of order"]),
        ("xbc", ["lost", "foreign"]),
    ],
)
def test_the_judge_of_mirrors_finds_what_must_not_be(copied: str, kinds: list[str]) -> None:
    def those(topic: str, text: str) -> list[Record]:
        return [
            Record(Coordinate(topic, 0, offset), 0, None, letter.encode())
            for offset, letter in enumerate(text)
        ]

    found = mirrored("into", those("from", "abc"), those("into", copied))
    assert kinds == [each.kind for each in found]


@pytest.mark.parametrize(
    "other",
    [
        [],
        [_COPY, _COPY],
        [replace(_COPY, value=b"b")],
        [replace(_COPY, key=None)],
        [replace(_COPY, timestamp_ms=8)],
        [replace(_COPY, headers=())],
        [replace(_COPY, at=Coordinate("into", 0, 4))],
    ],
)
def test_a_record_that_spark_reads_otherwise_is_found(other: list[Record]) -> None:
    assert [] == read_otherwise("into", [_COPY], [_COPY])
    assert 1 == len(read_otherwise("into", [_COPY], other))


@pytest.mark.parametrize(
    ("landed", "refused", "committed", "kind"),
    [
        ([(0, 1), (0, 2)], [], [(0, 1), (0, 2)], ""),
        ([(0, 2)], [(0, 1)], [(0, 1), (0, 2), (0, 3)], ""),
        ([(0, 1), (0, 1)], [], [(0, 1)], "doubled"),
        ([(0, 1)], [(0, 1)], [(0, 1)], "doubled"),
        ([(1, 2)], [], [(1, 1), (1, 2)], "lost"),
        ([(1, 1), (1, 2)], [], [(1, 2)], "foreign"),
    ],
)
def test_the_live_checker_finds_what_must_not_be(landed, refused, committed, kind) -> None:
    contents = Contents("t", *map(_numbered, (landed, refused, committed)), {0: 4, 1: 4})

    assert ([kind] if kind else []) == [each.kind for each in wrong(contents)]


def _numbered(those: list[tuple[int, int]]) -> np.ndarray:
    return np.array([(part << SHIFT) + at for part, at in those], np.int64) if those else NOWHERE


def test_the_same_seed_gives_the_same_storm() -> None:
    assert plan(7, 3600, LONG.paces) == plan(7, 3600, LONG.paces)
    assert digest(plan(7, 3600, LONG.paces)) != digest(plan(8, 3600, LONG.paces))


def test_a_long_storm_has_every_fault_and_one_every_few_seconds() -> None:
    gusts = plan(1, 3600, LONG.paces)

    assert set(Fault) == {each.fault for each in gusts}
    assert len(gusts) > 3600 / 5
