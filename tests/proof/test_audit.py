"""`penstock audit` is shown faults, each planted alone in tables that are right, and finds each.

The fault is planted in what the audit reads: the table's snapshots, ledger and files in memory, and
the coordinates of its rows. Real tables and commands: tests/integration/cli.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.story.backend import MemoryGround, catalog_name
from tests.story.world import ORDERS, PIPELINE, World

from penstock.app.inspect.row_count import _compare, _Coordinates
from penstock.core.audit import chain_breaks, doubled_commits, doubled_files, newest_segment
from penstock.core.commits import Chain
from penstock.core.offsets import Offset, TopicPartition, span
from penstock.core.serialization import ledger_from_json, ledger_to_json, progress_from_json
from penstock.ports.histories import CommitRecord
from penstock.ports.tables import Verdict
from penstock.testing.prepared import origin

AT = TopicPartition("topic-1", 0, "orders")
CHAIN = Chain(PIPELINE, ORDERS)
NAME = catalog_name(ORDERS)


def test_commits_before_the_newest_seek_are_not_checked():
    commits = [
        CommitRecord("id", "s", 0, kind, (), 0, 0) for kind in ("append", "seek", "append", "seek")
    ]

    assert commits[3:] == newest_segment(commits)
    assert commits[1:3] == newest_segment(commits[:3])
    assert commits[::2] == newest_segment(commits[::2])


def test_duplicates_are_reported_in_order():
    twice = ["b", "a", "c", "b", "a"]

    assert ["a", "b"] == [each.where for each in doubled_files(twice)]
    assert ["a", "b"] == [each.where for each in doubled_commits(twice)]


def test_gaps_and_overlaps_are_reported_by_kind_in_the_order_of_partitions():
    one, other = AT, replace(AT, partition=1)
    commits = [{other: span(0, 2), one: span(0, 3)}, {other: span(1, 4), one: span(5, 6)}]
    ledger = origin(CHAIN, {})
    landed = replace(ledger, offsets={one: Offset(6), other: Offset(4)})

    assert [f"{one}[3, 5) is in no commit", f"{other}[1, 2) is in two commits"] == [
        each.message for each in chain_breaks(landed, commits)
    ]


# Rows against Kafka.


def census(rows, refused=(3,), held=range(10)):
    found = [np.array([*each], dtype=np.int64) for each in (rows, refused, held, ())]
    return {each.kind for each in _compare(AT, Offset(0), _Coordinates(*found)).breaks}


RIGHT = [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_rows_that_are_right_break_nothing():
    assert set() == census(RIGHT)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ({"lost"}, RIGHT[:-1]),
        ({"doubled"}, [*RIGHT, 5]),
        ({"both"}, [*RIGHT, 3]),
        ({"foreign"}, [*RIGHT, 10]),
        ({"lost", "doubled"}, [*RIGHT[:-1], 0]),  # one in the place of another
    ],
)
def test_a_planted_row_is_found(kind, rows):
    assert kind == census(rows)


def test_a_record_refused_twice_is_found():
    assert {"doubled"} == census(RIGHT, refused=(3, 3))


def test_a_missing_rejected_record_is_found():
    assert {"lost"} == census(RIGHT, refused=())


# Metadata alone.


@pytest.fixture
def world():
    world = World(MemoryGround())
    for _ in range(4):
        world.send("orders", 3)
        world.run()
    return world


def stored(world):
    return world.ground.warehouse.get(NAME)


def metadata(world):
    state, history = world.table().state(CHAIN), world.table().history(CHAIN)
    commits = [progress_from_json([*map(list, each.progress)]) for each in history.commits]
    breaks = [*chain_breaks(state.landed, commits), *doubled_files(history.paths)]
    breaks += doubled_commits(each.commit_id for each in history.commits)
    sound = state.verdict is Verdict.AGREED
    return {each.kind for each in breaks} | (set() if sound else {"witnesses"})


def test_metadata_that_is_right_breaks_nothing(world):
    assert set() == metadata(world)


def test_a_file_added_twice_is_found(world):
    contents = stored(world).contents
    head = contents.snapshots[contents.head]
    twice = replace(head, id="s-by-hand", parent=head.id, files=(*head.files, head.files[0]))
    stored(world).contents = contents.with_snapshot(replace(twice, commit=None))

    assert {"file"} == metadata(world)


def test_a_rollback_is_found(world):
    older = [each.id for each in stored(world).contents.ancestry()][1]
    world.ground.roll_back(NAME, older)

    assert {"ledger", "witnesses"} == metadata(world)


@pytest.mark.parametrize("by", [-1, 1])
def test_a_ledger_moved_by_hand_is_found(world, by):
    contents = stored(world).contents
    ledger = ledger_from_json(contents.ledgers[PIPELINE])
    moved = replace(ledger, offsets={at: Offset(n + by) for at, n in ledger.offsets.items()})
    ledgers = {**contents.ledgers, PIPELINE: ledger_to_json(moved)}
    stored(world).contents = replace(contents, ledgers=ledgers)

    assert {"ledger"} == metadata(world)


def test_a_commit_cut_out_of_the_middle_is_found(world):
    contents = stored(world).contents
    own = [each for each in contents.ancestry() if each.commit]
    above, cut = own[0], own[1]
    snapshots = {**contents.snapshots, above.id: replace(above, parent=cut.parent)}
    stored(world).contents = replace(contents, snapshots=snapshots)

    assert {"gap"} == metadata(world)


def test_a_duplicate_commit_is_found(world):
    contents = stored(world).contents
    head = contents.snapshots[contents.head]
    again = replace(head, id="s-again", parent=head.id)
    stored(world).contents = contents.with_snapshot(again)

    assert {"overlap", "commit"} <= metadata(world)
