"""Where a replay and a seek end: before rows that are another's, or may be."""

import pytest

from penstock.core.accounting import Tally
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.offsets import Offset, TopicPartition, span
from penstock.core.planning import Bounds
from penstock.landing.repair.allowed_ranges import (
    bounded_ranges,
    require_single_pipeline,
    resolve_partitions,
    unlisted,
)
from penstock.landing.repair.replay import RowCounts, require_all_seen
from penstock.testing.prepared import TOPIC, TOPIC_ID, origin, part

CHAIN = Chain("shop", "lake.bronze.orders")
AT = part(0)
BOUNDS = Bounds(Offset(0), Offset(9), Offset(9))


def code_of(act, *given, **named):
    with pytest.raises((InvalidError, UnavailableError)) as caught:
        act(*given, **named)
    return caught.value.code


def test_two_pipelines_with_one_partition_in_one_table_are_refused():
    ledgers = [origin(CHAIN, {0: 3}), origin(Chain("second", ""), {0: 3, 1: 3})]

    assert "P482" == code_of(require_single_pipeline, CHAIN, ledgers, [AT])


def test_other_partitions_topics_and_quarantines_of_others_in_the_table_are_no_matter():
    ledgers = [
        origin(CHAIN, {0: 3}),
        origin(Chain("second/lake.t", ""), {0: 3}),
        origin(Chain("second", ""), {1: 3}),
    ]
    require_single_pipeline(CHAIN, ledgers, [AT])
    require_single_pipeline(
        CHAIN, [origin(Chain("second", ""), {0: 3})], [TopicPartition("x", 0, "clicks")]
    )


def test_without_a_range_all_is_meant_from_the_beginning_or_else_from_the_first_row():
    landed = {AT: Offset(9)}
    asked = resolve_partitions("t", landed, {(TOPIC, None): None})

    assert {AT: span(4, 9)} == bounded_ranges("t", landed, asked, {AT: Offset(4)}, {(TOPIC, 0): 6})
    assert {AT: span(6, 9)} == bounded_ranges("t", landed, asked, {}, {(TOPIC, 0): 6})
    assert "P483" == code_of(bounded_ranges, "t", landed, asked, {}, {})


def test_a_partition_that_has_landed_nothing_is_left_out():
    landed = {AT: Offset(0)}

    assert {} == bounded_ranges("t", landed, {AT: None}, {}, {})


def test_a_topic_that_was_created_again_is_distinguished_from_one_without_a_leader():
    again = {TopicPartition("another id", 0, TOPIC): BOUNDS}

    assert TOPIC_ID != next(iter(again)).topic_id
    assert ("P485", "P250") == (unlisted("t", AT, again).code, unlisted("t", AT, {}).code)


@pytest.mark.parametrize(
    ("rows", "positions", "tally", "code"),
    [
        (3, 3, Tally(3, 2, {"where": 1}), ""),
        (3, 5, Tally(3, 3), ""),
        (3, 5, Tally(3, 2, {"where": 1}), "P478"),
        (3, 3, Tally(2, 2), "P478"),
        (2, 3, Tally(3, 3), "P475"),
    ],
)
def test_a_row_neither_goes_nor_comes_unseen(rows, positions, tally, code):
    given = ("t", AT, RowCounts(rows, positions), tally)
    if not code:
        require_all_seen(*given, new_rows=False)
        return

    assert code == code_of(require_all_seen, *given, new_rows=False)
    if code == "P475":
        require_all_seen(*given, new_rows=True)


def test_new_rows_do_not_make_up_for_rows_whose_records_may_be_gone():
    seen = RowCounts(3, 5)

    assert "P478" == code_of(require_all_seen, "t", AT, seen, Tally(4, 4), new_rows=True)
    assert "P475" == code_of(require_all_seen, "t", AT, seen, Tally(4, 4), new_rows=False)
