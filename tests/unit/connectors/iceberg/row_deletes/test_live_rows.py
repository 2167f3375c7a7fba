"""Which row deletes hold for which data file, from entries alone."""

from math import nan

import numpy as np
import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.typedef import Record

from penstock.connectors.iceberg.files.manifest_entries import about, name_of
from penstock.connectors.iceberg.row_deletes.delete_files import PATH_ID
from penstock.connectors.iceberg.row_deletes.live_rows import live_rows, partition_key
from penstock.core.errors import InvalidError

DATA, DELETES = DataFileContent.DATA, DataFileContent.POSITION_DELETES


def file(path, content=DATA, rows=10, *, partition=(), spec=0, bounds=None):
    named = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=rows,
        file_size_in_bytes=100,
        lower_bounds=None if bounds is None else {PATH_ID: bounds[0].encode()},
        upper_bounds=None if bounds is None else {PATH_ID: bounds[-1].encode()},
    )
    named.spec_id = spec
    return named


def vector(path, of, start=0, rows=1):
    """Describe a deletion vector that begins somewhere in a Puffin file."""
    named = DataFile.from_args(
        content=DELETES,
        file_path=path,
        file_format=FileFormat.PUFFIN,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=900,
    )
    named.spec_id = 0
    return about(named, of, (start, 40))


def entry(listed, sequence=1):
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=sequence,
        sequence_number=sequence,
        file_sequence_number=sequence,
        data_file=listed,
    )


def found(entries, **held):
    return live_rows(
        entries,
        "lake.orders",
        lambda each: {k: np.array(v) for k, v in held[name_of(each)].items()},
    )


def test_a_file_without_deletes_has_no_state():
    live = found([entry(file("a"))])

    assert ("", 0, []) == (live.delete_state("a"), live.count_deleted("a"), [*live.deleted_in("a")])


@pytest.mark.parametrize("named_by", ["bounds", "field"])
def test_a_delete_file_about_one_data_file_holds_for_no_other_and_is_not_read_to_count(named_by):
    plain = file("d", DELETES, rows=2, bounds=["a"] if named_by == "bounds" else None)
    named = plain if named_by == "bounds" else about(plain, "a")
    live = live_rows([entry(file("a")), entry(file("b")), entry(named)], "t", read=None)

    assert (2, 0) == (live.count_deleted("a"), live.count_deleted("b"))
    assert live.delete_state("a")
    assert "" == live.delete_state("b")
    assert ["d"] == [each.data_file.file_path for each in live.scoped_to("a")]


def test_one_about_several_holds_for_those_it_names_in_its_partition():
    entries = [
        entry(file("a", partition=("x",))),
        entry(file("b", partition=("x",))),
        entry(file("c", partition=("y",))),
        entry(file("e", partition=("x",), spec=1)),
        entry(file("d", DELETES, rows=4, partition=("x",), bounds=["a", "e"])),
    ]
    live = found(entries, d={"a": [1, 2], "c": [3], "e": [4]})

    assert [1, 2] == live.deleted_in("a").tolist()
    assert [[]] * 3 == [live.deleted_in(path).tolist() for path in "bce"]
    assert ["", "", ""] == [live.delete_state(path) for path in "bce"]
    assert [2, 0, 0] == [live.count_deleted(path) for path in "abc"]


def test_deletes_hold_for_files_that_are_not_younger():
    deletes = entry(file("d", DELETES, rows=1, bounds=["a"]), sequence=3)
    held = {"d": {"a": [0]}}

    assert [0] == found([entry(file("a"), 3), deletes], **held).deleted_in("a").tolist()
    assert [] == found([entry(file("a"), 4), deletes], **held).deleted_in("a").tolist()


def test_deletes_of_several_files_are_counted_once_and_beyond_the_end_never():
    entries = [
        entry(file("a")),
        entry(file("d", DELETES, rows=2, bounds=["a"])),
        entry(file("e", DELETES, rows=3)),
    ]
    live = found(entries, d={"a": [1, 2]}, e={"a": [2, 9, 10]})

    assert [1, 2, 9] == live.deleted_in("a").tolist()
    assert 3 == live.count_deleted("a")
    assert live.delete_state("a") != found(entries[:2], d={"a": [1]}).delete_state("a")


def test_a_state_names_delete_files_in_whatever_order():
    one, two = (entry(file(name, DELETES, rows=1, bounds=["a"])) for name in "de")
    first = found([entry(file("a")), one, two])

    assert first.delete_state("a") == found([two, one, entry(file("a"))]).delete_state("a")


def test_equality_deletes_are_refused():
    with pytest.raises(InvalidError, match="equality deletes") as caught:
        found([entry(file("a")), entry(file("d", DataFileContent.EQUALITY_DELETES))])

    assert "P436" == caught.value.code


def test_totals_count_files_rows_and_deletes():
    entries = [
        entry(file("a")),
        entry(file("b", rows=5)),
        entry(file("d", DELETES, rows=2, bounds=["a"])),
        entry(file("e", DELETES, rows=3)),
    ]

    assert {
        "total-data-files": "2",
        "total-delete-files": "2",
        "total-records": "15",
        "total-files-size": "400",
        "total-position-deletes": "5",
        "total-equality-deletes": "0",
    } == found(entries).totals()


def test_partitions_of_nan_are_one_and_zeros_are_two():
    keys = [partition_key(file("a", partition=(value,))) for value in (nan, -nan, 0.0, -0.0, None)]

    assert keys[0] == keys[1]
    assert 4 == len({*keys})


def test_where_there_is_a_vector_no_delete_file_holds():
    """Its writer has taken over what they said, and what they say of other files goes on."""
    entries = [
        entry(file("a")),
        entry(file("b")),
        entry(file("of-a", DELETES, 1, bounds=["a"])),
        entry(file("of-both", DELETES, 2)),
        entry(vector("v", "a")),
    ]
    live = found(
        entries, **{"of-a": {"a": [3]}, "of-both": {"a": [4], "b": [0]}, "v@0": {"a": [5]}}
    )

    assert ([5], [0]) == (live.deleted_in("a").tolist(), live.deleted_in("b").tolist())
    assert (1, 1) == (live.count_deleted("a"), live.count_deleted("b"))


def test_vectors_in_one_file_are_told_apart_and_counted_by_their_own_sizes():
    entries = [
        entry(file("a")),
        entry(file("b")),
        entry(vector("v", "a", 4)),
        entry(vector("v", "b", 44)),
    ]
    live = found(entries, **{"v@4": {"a": [5]}, "v@44": {"b": [6]}})

    assert ([5], [6]) == (live.deleted_in("a").tolist(), live.deleted_in("b").tolist())
    assert live.delete_state("a") != live.delete_state("b")
    assert {"2", "280"} == {live.totals()["total-delete-files"], live.totals()["total-files-size"]}


def test_a_data_file_with_two_vectors_is_not_read():
    live = found([entry(file("a")), entry(vector("v", "a")), entry(vector("w", "a"))])
    with pytest.raises(ValueError, match="a has 2 deletion vectors"):
        live.delete_state("a")
