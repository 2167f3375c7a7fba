"""What the plan of maintenance promises, for any files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.maintenance import (
    INPUTS_MAX,
    OURS,
    FileGroup,
    LastMaintenance,
    Layout,
    StoredFile,
    TableHealth,
    acts_of,
    groups_of,
    health_of,
    worst_first,
)

MB = 1_000_000
TARGET = 256 * MB


def file(megabytes: float, rows: int = 1000, deleted: int = 0, partition: str = "") -> StoredFile:
    return StoredFile("", partition, rows, int(megabytes * MB), deleted)


def planned(*files: StoredFile) -> list[tuple[int, int]]:
    """Return how many files each group has, before and after."""
    groups = groups_of(Layout(files, TARGET, 0))
    return [(len(each.files), each.files_after) for each in groups]


def test_small_files_of_one_partition_become_one() -> None:
    files = [file(1, partition="day=1")] * 20 + [file(1, partition="day=2")] * 3

    [first, second] = groups_of(Layout(files, TARGET, 0))

    assert [FileGroup(tuple(files[:20])), FileGroup(tuple(files[20:]))] == [first, second]
    assert ("day=1", 1, 20 * MB, 20_000) == (
        first.partition,
        first.files_after,
        first.live_bytes,
        first.rows,
    )


def late(megabytes: float) -> StoredFile:
    return replace(file(megabytes, partition="late"), late=True)


def test_late_files_go_first_as_they_lie_whatever_their_size() -> None:
    others = [file(100, partition="a"), *[file(1, partition="b")] * 2, file(200, partition="c")]
    files = [late(200), late(1), *others, late(60), late(70)]
    layout = Layout(files, TARGET, 0)

    groups = groups_of(layout)
    sizes = [[each.size_bytes // MB for each in group.files] for group in groups]
    assert [[200], [1, 60], [70], [1, 1]] == sizes
    assert [3, 3, 3, 1] == [each.files_after for each in groups]
    health = health_of(layout, groups)
    assert (8, 7, 4, 4) == (health.files, health.files_after, health.late, health.groups)


def test_many_late_files_are_worth_a_word() -> None:
    few, many = ([late(1)] * count for count in (31, 32))
    found = [health_of(Layout(each, TARGET, 0), ()) for each in (few, many)]

    assert [False, True] == [each.needs_maintenance for each in found]


def test_what_is_full_or_alone_is_left() -> None:
    assert [] == planned()
    assert [] == planned(file(200), file(129), file(128))
    assert [] == planned(file(1, partition="a"), file(1, partition="b"))


def test_a_group_becomes_a_file_of_at_most_the_target() -> None:
    assert [(2, 1), (2, 1)] == planned(*[file(120)] * 5)
    assert [(2, 1)] == planned(file(120), file(120), file(30, partition="other"))


def test_a_large_file_is_not_written_again_for_a_little_one() -> None:
    assert [] == planned(file(100), file(3))
    assert [(2, 1)] == planned(file(100), file(3), file(3))
    assert [(4, 1)] == planned(file(100), file(100), *[file(3)] * 4)[:1]


def test_files_of_one_stream_are_alike_though_no_two_have_the_same_size() -> None:
    assert [(48, 1)] == planned(*[file(2 + n / 1000) for n in range(48)])
    assert [(2, 1)] == planned(file(20), file(29))
    assert [] == planned(file(20), file(31))


def test_sizes_below_what_opening_costs_are_alike() -> None:
    assert [(3, 1)] == planned(file(0.001), file(0.1), file(0.9))


@pytest.mark.parametrize(
    ("deleted", "expected"), [(0, []), (99, []), (100, [(1, 1)]), (999, [(1, 1)]), (1000, [(1, 0)])]
)
def test_a_full_file_is_written_again_for_its_deleted_rows_alone(
    deleted: int, expected: list[tuple[int, int]]
) -> None:
    assert expected == planned(file(250, deleted=deleted))


def test_files_with_deleted_rows_are_packed_by_what_is_left_of_them() -> None:
    assert [(4, 1)] == planned(*[file(200, deleted=750)] * 4)


def test_a_group_has_so_many_files_at_most() -> None:
    assert [INPUTS_MAX, 500] == [
        count for count, _ in planned(*[file(0.001, rows=1)] * (INPUTS_MAX + 500))
    ]


def test_the_group_that_saves_the_most_comes_first() -> None:
    parts = [
        file(1, partition=name) for name, n in (("a", 2), ("b", 9), ("c", 5)) for _ in range(n)
    ]
    worn = [file(250, partition="d", deleted=n) for n in (100, 500)]

    groups = groups_of(Layout([*worn[:1], *parts, *worn[1:]], TARGET, 0))

    assert ["b", "c", "a", "d", "d"] == [each.partition for each in groups]
    assert [500, 100] == [each.deleted for each in groups[3:]]


def test_health_sums_up_what_is_there_and_what_would_be() -> None:
    layout = Layout([*[file(1)] * 40, file(250, deleted=300), file(250)], TARGET, 77)

    health = health_of(layout, groups_of(layout))

    assert TableHealth(42, 2, 540 * MB, 41_700, 300, 77, 1, TARGET) == health
    assert health.needs_maintenance
    assert 40 == health.excess_files


LOOKED = TableHealth(500, 20, 2_000 * MB, 1000, 0, 77, 9, TARGET)


@pytest.mark.parametrize(
    ("files", "megabytes", "excess"), [(1, 1, 481), (24, 240, 504), (3, 600, 480), (0, 0, 480)]
)
def test_what_landed_since_a_look_is_too_much_but_for_full_files(
    files: int, megabytes: int, excess: int
) -> None:
    after = LOOKED.after_commit(files, megabytes * MB)

    assert (500 + files, excess) == (after.files, after.excess_files)
    assert LOOKED.size_bytes + megabytes * MB == after.size_bytes


def test_what_was_maintained_since_a_look_is_less() -> None:
    after = LOOKED.after_maintenance(300, 6, 77)

    assert (206, 186) == (after.files, after.excess_files)
    assert LastMaintenance(77, OURS) == after.maintained
    all_of_them = LOOKED.after_maintenance(600, 1, 77)
    assert (0, 0) == (all_of_them.files, all_of_them.excess_files)


def test_tables_that_need_maintenance_are_listed_the_worst_first() -> None:
    worn = replace(LOOKED, files=20, rows=70, deleted=30)
    found = worst_first(
        {"worn": worn, "well": replace(LOOKED, files=30), "none": None}
        | {"bad": LOOKED, "worse": replace(LOOKED, files=501)}
    )

    assert ["worse", "bad", "worn"] == list(found)


def test_a_few_files_are_not_worth_a_word() -> None:
    few = Layout([file(1)] * 20, TARGET, 0)
    worn = Layout([file(250, deleted=200)], TARGET, 0)
    empty = Layout([], TARGET, 0)

    assert [False, True, False] == [
        health_of(each, groups_of(each)).needs_maintenance for each in (few, worn, empty)
    ]


files = st.builds(
    lambda partition, rows, share, size: StoredFile("", partition, rows, size, int(rows * share)),
    st.sampled_from("ab"),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.0, 0.05, 0.5, 1.0]),
    st.integers(1, 400),
)


def numbered(found: list[StoredFile]) -> list[StoredFile]:
    return [replace(each, path=str(number)) for number, each in enumerate(found)]


@given(st.lists(files, max_size=60).map(numbered))
def test_for_any_files_groups_are_disjoint_and_small_enough(found: list[StoredFile]) -> None:
    groups = groups_of(Layout(found, 256, 0))

    paths = [file.path for group in groups for file in group.files]
    assert len(paths) == len({*paths})
    for group in groups:
        assert {group.partition} == {each.partition for each in group.files}
        assert group.live_bytes <= 256 or len(group.files) == 1
        assert len(group.files) > group.files_after or group.deleted


@given(st.lists(files, max_size=60).map(numbered))
def test_maintenance_carried_out_again_and_again_comes_to_an_end(found: list[StoredFile]) -> None:
    turns = 0
    while groups := groups_of(Layout(found, 256, 0)):
        gone = {file.path for group in groups for file in group.files}
        new = [
            StoredFile(f"{turns}-{n}", each.partition, each.rows, each.live_bytes)
            for n, each in enumerate(groups)
            if each.files_after
        ]
        expected = health_of(Layout(found, 256, 0), groups).files_after
        found = [*(each for each in found if each.path not in gone), *new]
        assert expected == len(found)
        turns += 1
        assert turns <= 12, "a file grows by two thirds until it is full"


def test_files_that_another_program_clusters_are_in_no_group() -> None:
    clustered = replace(file(1, deleted=900), clustered=True)

    assert [(2, 1)] == planned(file(1), clustered, file(1), clustered)


@pytest.mark.parametrize(
    ("number", "only", "acts"),
    [
        (0, (), ()),
        (0, ("expire",), ("expire",)),
        (1, (), ("sweep",)),
        (1, ("expire", "sweep"), ("sweep",)),
        (1, ("expire",), ()),
    ],
)
def test_files_and_snapshots_are_the_first_shards_and_each_sweeps_its_own(
    number: int, only: tuple[str, ...], acts: tuple[str, ...]
) -> None:
    assert acts == acts_of(number, only)
