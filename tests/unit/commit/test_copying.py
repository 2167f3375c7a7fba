"""Jobs of a rearrangement and their results are the same behind their texts."""

import numpy as np
import pytest

from penstock.commit.copying import (
    CopiedGroup,
    CopyJob,
    job_from_json,
    job_to_json,
    result_from_json,
    result_to_json,
)
from penstock.core.commits import DataFile

FILES = (DataFile("a", 2, 10, {}, detail="{}"), DataFile("b", 3, 20, {}, "p=1"))
IN_ORDER = (np.array([0, 0, 1, 1, 1], np.int32), np.array([0, 1, 0, 1, 2]))
TURNED = (np.array([1, 0, 1, 1, 0], np.int32), np.array([0, 1, 2, 1, 0]))


def test_a_job_is_read_as_it_was_written():
    groups = (("x", "y"), ("z",))
    job = CopyJob("lake.orders", "iceberg", "{}", "shop-m", True, ("_row_id",), "{}", groups, 7)

    assert job == job_from_json(job_to_json(job))


@pytest.mark.parametrize("places", [IN_ORDER, TURNED])
def test_a_result_says_where_each_row_went(places):
    [found] = result_from_json(result_to_json([CopiedGroup(FILES, places)], 5))

    assert FILES == found.files
    assert [each.tolist() for each in places] == [each.tolist() for each in found.places]
    assert [each.dtype for each in places] == [each.dtype for each in found.places]


def test_of_too_many_rows_a_result_says_so_where_it_does_not_follow_from_the_files():
    groups = [CopiedGroup(FILES, each) for each in (TURNED, IN_ORDER, TURNED)]
    found = result_from_json(result_to_json(groups, 9))

    assert [True, True, False] == [each.places is not None for each in found]


def test_no_rows_are_in_order():
    none = (np.array([], np.int32), np.array([], np.int64))
    [found] = result_from_json(result_to_json([CopiedGroup((), none)], 0))

    assert ((), [0, 0]) == (found.files, [len(each) for each in found.places])
