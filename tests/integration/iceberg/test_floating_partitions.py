"""Partition values that are doubles, through merged and replaced manifests, bit by bit.

The independent decoder of manifests is fastavro: PyIceberg's own reads doubles as 32 bits.
"""

import re
import struct
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.types import DoubleType

import penstock
from penstock.connectors.iceberg.files.manifests import MERGE_AT
from penstock.core.commits import CommitKind
from penstock.core.schema import Field, Kind, Struct
from penstock.testing.contracts.table_fixture import batch_of
from penstock.testing.prepared import prepared

ROWS = Struct((Field("id", Kind.LONG), Field("wide", Kind.DOUBLE), Field("slim", Kind.FLOAT)))
VALUES = [0.1, 1e300, -1e-320, 2.0**53 + 2, inf, -inf, nan, None, 0.0, 1.0 / 3, 16777217.0]
assert len(VALUES) > MERGE_AT


def bits(value):
    return None if value is None else struct.pack("<d", value)


def slim(value):
    """Return the 32-bit float nearest to a value; what is too small for one is 0.0."""
    cast = pa.scalar(value, pa.float64()).cast(pa.float32(), safe=False).as_py()
    return None if cast is None else cast + 0.0


def row(number, value):
    return {"id": number, "wide": value, "slim": slim(value)}


def land(lake, table, number, value):
    land_row(lake, table, row(number, value))


def land_row(lake, table, row):
    number = row["id"]
    state = table.state(lake.chain)
    files = lake.write(state, batch_of(state.schema, [row]))
    commit = prepared(
        lake.chain,
        {0: (number, number + 1)},
        files=files,
        uuid=state.uuid,
        schema_id=state.schema_id,
    )
    table.commit(state, commit, retain=100)


def by_fastavro(lake):
    """Return path and partition values of each live file, and which manifests are merged ones."""
    foreign = lake.foreign()
    found, merged = {}, 0
    for manifest in foreign.current_snapshot().manifests(foreign.io):
        with foreign.io.new_input(manifest.manifest_path).open() as stream:
            entries = list(fastavro.reader(stream))
        merged += any(each["status"] == ManifestEntryStatus.EXISTING for each in entries)
        for each in entries:
            if each["status"] != ManifestEntryStatus.DELETED:
                file = each["data_file"]
                found[file["file_path"]] = tuple(map(bits, file["partition"].values()))
    return found, merged


def listed(lake):
    """Return what the newest manifest list records of manifests."""
    foreign = lake.foreign()
    with foreign.io.new_input(foreign.current_snapshot().manifest_list).open() as stream:
        return list(fastavro.reader(stream))


def expected_of(values):
    return sorted((bits(each), bits(slim(each))) for each in values if each is not None)


@pytest.mark.parametrize("version", ["1", "2"])
def test_merged_manifests_keep_floating_partition_values(lake, version):
    table = lake.create(ROWS, ["wide", "slim"], {"format-version": version})
    for number, value in enumerate(VALUES):
        land(lake, table, number, value)
    found, merged = by_fastavro(lake)

    assert 1 == merged
    assert expected_of(VALUES) == sorted(each for each in found.values() if None not in each)
    assert [(None, None)] == [each for each in found.values() if None in each]


def test_a_manifest_in_which_a_file_is_replaced_keeps_the_values_of_the_others(lake):
    table = lake.create(ROWS, ["wide", "slim"], {"write.summary.partition-limit": "100"})
    for number, value in enumerate(VALUES):
        land(lake, table, number, value)
    before, _ = by_fastavro(lake)
    gone = next(path for path, values in before.items() if bits(0.1) in values)
    state = table.state(lake.chain)
    commit = replace(lake.anchor(state, {}), kind=CommitKind.REPLACE, removes=(gone,))
    table.commit(state, commit, retain=100)
    after, _ = by_fastavro(lake)

    assert {path: each for path, each in before.items() if path != gone} == after
    summary = lake.foreign().current_snapshot().summary.additional_properties
    assert [f"partitions.wide=0.1/slim={slim(0.1)}"] == [
        key for key in summary if key.startswith("partitions.")
    ]


def test_manifests_of_another_writer_keep_floating_partition_values(lake):
    table = lake.create(ROWS, ["wide", "slim"])
    foreign = lake.foreign()
    for number, value in enumerate(VALUES[:6]):
        rows = [row(number, value)]
        foreign.append(pa.Table.from_pylist(rows, schema=foreign.schema().as_arrow()))
    for number, value in enumerate(VALUES[6:]):
        land(lake, table, number, value)
    found, merged = by_fastavro(lake)

    assert 1 == merged
    assert expected_of(VALUES) == sorted(each for each in found.values() if None not in each)


def test_a_float_that_became_a_double_keeps_its_partition_value(lake):
    table = lake.create(ROWS, ["slim"])
    for number, value in enumerate(VALUES[:6]):
        land(lake, table, number, value)
    with lake.foreign().update_schema() as change:
        change.update_column("slim", DoubleType())
    for number, value in enumerate(VALUES[:6], start=6):
        land_row(lake, table, {"id": number, "slim": value})
    found, merged = by_fastavro(lake)

    assert 1 == merged
    expected = [bits(slim(each)) for each in VALUES[:6]] + [bits(each) for each in VALUES[:6]]
    assert sorted(expected) == sorted(each for (each,) in found.values())


def test_zero_below_zero_and_nan_have_stop_across_partitions_each(lake):
    """As numbers they are equal, and a filter at zero must not leave one of them out."""
    table = lake.create(ROWS, ["wide"])
    state = table.state(lake.chain)
    rows = [row(n, value) for n, value in enumerate([-0.0, 0.0, nan, -nan])]
    batch = batch_of(state.schema, rows)
    writer = lake.writer(state)
    for number in range(len(rows)):
        writer.write(batch.slice(number, 1))
    files = writer.close()
    commit = prepared(
        lake.chain, {0: (0, 4)}, files=files, uuid=state.uuid, schema_id=state.schema_id
    )
    table.commit(state, commit, retain=100)
    found, _ = by_fastavro(lake)
    foreign = lake.foreign()

    assert [(bits(0.0),), (bits(nan),)] == sorted(found.values())
    for filter_ in ("wide = 0.0", "wide >= 0.0", "wide <= 0.0"):
        assert {0, 1} == set(foreign.scan(filter_).to_arrow()["id"].to_pylist()), filter_
    assert [-0.0, 0.0] == foreign.scan("wide = 0.0").to_arrow()["wide"].to_pylist()


def test_a_summary_holds_both_zeros_of_another_writers_partitions(lake):
    """Java's readers order -0.0 before 0.0, and skip a manifest whose upper bound is -0.0."""
    table = lake.create(ROWS, ["wide", "slim"])
    foreign = lake.foreign()
    for number in range(MERGE_AT):
        rows = [row(number, -0.0) | {"slim": -0.0}, row(number, 0.0)]
        batch = pa.Table.from_pylist([rows[number % 2]], schema=foreign.schema().as_arrow())
        foreign.append(batch)
    land(lake, table, 0, None)
    (merged,) = [each for each in listed(lake) if each["existing_files_count"]]

    assert [struct.pack("<d", -0.0), struct.pack("<f", -0.0)] == [
        each["lower_bound"] for each in merged["partitions"]
    ]
    assert [struct.pack("<d", 0.0), struct.pack("<f", 0.0)] == [
        each["upper_bound"] for each in merged["partitions"]
    ]


@pytest.mark.parametrize(("values", "lower"), [([nan], inf), ([7.5, nan], 7.5)])
def test_a_summary_with_nan_has_no_end_above(lake, values, lower):
    """Spark takes NaN for the greatest number, and skips no manifest that holds one."""
    table = lake.create(ROWS, ["wide"])
    state = table.state(lake.chain)
    files = lake.write(state, batch_of(state.schema, [row(1, value) for value in values]))
    commit = prepared(
        lake.chain, {0: (0, 1)}, files=files, uuid=state.uuid, schema_id=state.schema_id
    )
    table.commit(state, commit, retain=100)
    ((summary,),) = [each["partitions"] for each in listed(lake)]

    assert summary["contains_nan"]
    assert (bits(lower), bits(inf)) == (summary["lower_bound"], summary["upper_bound"])
    assert len(values) == lake.foreign().scan().to_arrow().num_rows


def test_manifests_are_read_in_one_place():
    """PyIceberg's own reading rounds doubles."""
    readers = [
        path.name
        for path in Path(penstock.__file__).parent.rglob("*.py")
        if re.search(r"fetch_manifest_entry\(|AvroFile\[", path.read_text())
    ]

    assert ["manifest_entries.py", "manifest_lists.py"] == sorted(readers)  # lists have no doubles
