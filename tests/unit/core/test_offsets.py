import pytest
from tests.properties.core_values import concatenated

from penstock.core.offsets import (
    TopicPartition,
    advanced,
    between,
    gaps_and_overlaps,
    span,
)
from penstock.testing.prepared import part


def test_a_range_is_half_open():
    covered = span(2, 5)

    assert [False, True, True, False] == [n in covered for n in (1, 2, 4, 5)]
    assert (3, "[2, 5)") == (covered.count, str(covered))


@pytest.mark.parametrize(("start", "stop"), [(3, 2), (-1, 2)])
def test_a_range_does_not_run_backwards_and_has_no_negative_start(start, stop):
    with pytest.raises(AssertionError, match="not a range"):
        span(start, stop)


def test_a_topic_is_its_id_and_the_name_only_a_label():
    first, renamed = TopicPartition("id", 0, "orders"), TopicPartition("id", 0, "sales")

    assert first == renamed
    assert hash(first) == hash(renamed)
    assert first != TopicPartition("other", 0, "orders")
    assert "orders[0]" == str(first)


def test_positions_advance_only_from_where_they_are():
    with pytest.raises(AssertionError, match="does not start at 3"):
        advanced({part(0): 3}, {part(0): span(4, 5)})
    with pytest.raises(AssertionError, match="does not start at None"):
        advanced({}, {part(0): span(0, 5)})


def test_stretches_that_do_not_meet_are_not_joined():
    with pytest.raises(AssertionError):
        concatenated({part(0): span(0, 2)}, {part(0): span(3, 4)})


def test_gaps_and_overlaps_name_where():
    found = gaps_and_overlaps([span(0, 3), span(2, 5), span(7, 9), span(7, 8)])

    assert [
        ("overlap", span(2, 3)),
        ("gap", span(5, 7)),
        ("overlap", span(7, 8)),
    ] == found


def test_between_two_positions_are_the_partitions_of_both_that_moved():
    start = {part(0): 3, part(1): 5}
    stop = {part(0): 7, part(1): 5, part(2): 9}

    assert {part(0): span(3, 7)} == between(start, stop)
