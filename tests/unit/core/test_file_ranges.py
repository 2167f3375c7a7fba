"""The position of files to a replayed range, worked out by hand."""

import pytest

from penstock.core.file_ranges import (
    FileRanges,
    ends_of_rows,
    partition_files,
    rows_of,
    starts_of_rows,
)
from penstock.core.offsets import span

ONE, OTHER = ("orders", 0), ("orders", 1)


def file(ranges, **given):
    return FileRanges("f", 1, {at: span(*ends) for at, ends in ranges.items()}, **given)


@pytest.mark.parametrize(
    ("position", "ranges"),
    [
        ("inside", {ONE: (3, 6)}),
        ("inside", {ONE: (4, 5)}),
        ("across", {ONE: (2, 4)}),
        ("across", {ONE: (5, 7)}),
        ("across", {ONE: (2, 7)}),
        ("across", {ONE: (3, 6), OTHER: (0, 1)}),
        ("elsewhere", {ONE: (1, 3)}),
        ("elsewhere", {ONE: (6, 8)}),
        ("elsewhere", {OTHER: (3, 6)}),
        ("elsewhere", {}),
    ],
)
def test_a_file_is_replaced_when_all_of_its_rows_are_of_the_stretch(position, ranges):
    found = partition_files([file(ranges)], {ONE: span(3, 6)})

    assert (position == "inside", position == "across") == (bool(found.inside), bool(found.across))


def test_a_file_with_rows_of_others_is_never_replaced_whole():
    found = partition_files([file({ONE: (3, 6)}, rows_without_source=1)], {ONE: span(3, 6)})

    assert (0, 1) == (len(found.inside), len(found.across))


def test_a_stretch_is_widened_to_what_is_across_its_edges():
    stretch = {ONE: span(3, 6)}
    across = [file({ONE: (2, 4)}), file({ONE: (5, 9), OTHER: (7, 8)})]

    assert {ONE: span(2, 9), OTHER: span(7, 8)} == partition_files(across, stretch).widened(stretch)


def test_rows_begin_and_end_where_those_of_any_file_do():
    files = [file({ONE: (3, 6)}, counts={ONE: 3}), file({ONE: (0, 2), OTHER: (5, 9)})]
    files += [file({ONE: (4, 5)}, counts={ONE: 1, OTHER: 2})]

    assert {ONE: 6, OTHER: 9} == ends_of_rows(files)
    assert {ONE: 0, OTHER: 5} == starts_of_rows(files)
    assert {ONE: 4, OTHER: 2} == rows_of(files)
