"""What a worker reads of a table's stretches, and what it does where a file is gone."""

import json

import pytest
from tests.story.clock import ManualClock

from penstock.connectors.memory.increments import (
    MemoryFileRows,
    MemoryHistory,
    MemoryIncrements,
)
from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.core.positions import partition_of, position_of
from penstock.ports.sources import EpochLimit, Stretch
from penstock.publishing.table_positions import table_position
from penstock.publishing.table_source import TableSource
from penstock.publishing.table_work import WORK_VERSION, TableReader

FOREVER = float("inf")


@pytest.fixture
def history() -> MemoryHistory:
    made = MemoryHistory()
    made.append(range(7), range(7, 12))
    return made


def source_of(history: MemoryHistory) -> TableSource:
    return TableSource(
        MemoryIncrements(history), "lake.t", "skip", ManualClock().monotonic, "segments"
    )


def stretch_of(source: TableSource) -> Stretch:
    [found] = source.plan(source.starts("earliest"), source.ends(), EpochLimit(100, 100))
    return found


def read(stretch: Stretch, *, gone: tuple[str, ...] = (), deadline: float = FOREVER):
    return [*TableReader(MemoryFileRows(gone), ManualClock()).read(stretch, deadline=deadline)]


def test_each_batch_has_the_position_behind_it(history):
    source = source_of(history)
    stretch = stretch_of(source)
    found = read(stretch)
    whole = [row for each in found for row in each.rows.column("id").to_pylist()]

    assert [*range(12)] == sorted(whole)
    for number, each in enumerate(found, 1):
        begun = {stretch.of: each.reached}
        rest = source.plan(begun, source.ends(), EpochLimit(100, 100))
        rows = [row for one in rest for part in read(one) for row in part.rows.column("id")]
        read_until = sum(one.rows.num_rows for one in found[:number])
        assert whole[read_until:] == [row.as_py() for row in rows]
    assert stretch.stop == found[-1].reached


def test_a_deadline_ends_a_stretch_early(history):
    [found] = read(stretch_of(source_of(history)), deadline=0.0)

    assert 3 == found.rows.num_rows
    assert "row 3 of the next" in table_position(found.reached).words()


def test_what_moves_no_row_moves_the_position(history):
    source = source_of(history)
    stands = source.starts("latest")
    history.overwrite([20])
    [stretch] = source_of(history).plan(stands, source_of(history).ends(), EpochLimit(9, 9))
    [found] = read(stretch)

    assert (0, stretch.stop) == (found.rows.num_rows, found.reached)


def test_a_file_that_is_gone_is_a_person_s_decision(history):
    gone = tuple(each.path for each in history.files)
    with pytest.raises(DecisionNeededError) as caught:
        read(stretch_of(source_of(history)), gone=gone)

    assert "P828" == caught.value.code
    assert "penstock seek segments earliest" in caught.value.hint


def test_another_version_of_a_stretch_is_refused(history):
    stretch = stretch_of(source_of(history))
    work = json.dumps({**json.loads(stretch.work), "v": WORK_VERSION + 1})
    with pytest.raises(InvalidError) as caught:
        read(Stretch(stretch.of, stretch.start, stretch.stop, 1, work))

    assert "P190" == caught.value.code


@pytest.mark.parametrize("values", [{"offset": 1}, {"uuid": "u", "snapshot": 1}])
def test_a_position_of_another_source_is_refused(history, values):
    of = partition_of({"table": "lake.t"}, "lake.t")
    foreign = position_of(values, "a topic")
    with pytest.raises(InvalidError) as caught:
        source_of(history).count({of: foreign}, source_of(history).ends())

    assert "P815" == caught.value.code


def test_a_person_names_the_first_row_or_the_end(history):
    source = source_of(history)

    assert source.starts("latest") == source.places(["latest"])
    with pytest.raises(InvalidError) as caught:
        source.places(["lake.t:1"])
    assert "P817" == caught.value.code


def test_positions_say_where_they_are(history):
    [start] = source_of(history).starts("earliest").values()
    [stop] = source_of(history).ends().values()
    [empty] = source_of(MemoryHistory()).ends().values()

    assert "at the first row of the 12 rows of snapshot 1" == table_position(start).words()
    assert "behind snapshot 1 (12 rows)" == table_position(stop).words()
    assert "before the first snapshot" == table_position(empty).words()
