"""What counts of an epoch's results, and what is refused as our bug."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.accounting import Tally, too_many_rejects
from penstock.core.commits import DataFile, EpochNumber
from penstock.core.errors import BugError, DecisionNeededError, UnavailableError
from penstock.core.offsets import Offset, span
from penstock.core.planning import Epoch, Lane, Slice
from penstock.core.schema import Field, Kind, Struct
from penstock.landing.task.messages import LaneResult, TaskResult
from penstock.landing.task.results import (
    aggregate,
    failures,
    joined_schemas,
    tables_over_reject_limit,
    valid_results,
)
from penstock.rows.keyed.net import Changes
from penstock.rows.keyed.touched import touched_from_bytes, touched_to_bytes
from penstock.testing.prepared import part

TABLE = "lake.bronze.orders"


def lane(start, stop, partition=0, *tables):
    return Lane(part(partition), span(start, stop), tables or (TABLE,))


def epoch(*lanes):
    return Epoch(EpochNumber(1), tuple(Slice(n, (each,)) for n, each in enumerate(lanes)))


def came_to(number, each, reached, *, leader_epoch=None, **given):
    records = reached - each.covered.start
    done = LaneResult(each, Offset(reached), records, records * 100, None, leader_epoch)
    return TaskResult(number=number, lanes=(done,), **given)


def file(rows, path="a"):
    return DataFile(path, rows, 100, {})


def test_a_result_for_each_slice_counts():
    first, second = lane(0, 5), lane(0, 3, 1)
    results = [came_to(0, first, 5), came_to(1, second, 3)]

    assert results == valid_results(epoch(first, second), results)


@pytest.mark.parametrize("numbers", [[0], [0, 0], [0, 1, 1], [0, 2], []])
def test_c8_completion_is_set_equality_never_a_count(numbers):
    lanes = [lane(0, 5), lane(0, 3, 1), lane(0, 1, 2)]
    results = [came_to(n, lanes[n], lanes[n].covered.stop) for n in numbers]

    with pytest.raises(BugError, match="results came for") as raised:
        valid_results(epoch(lanes[0], lanes[1]), results)
    assert "P702" == raised.value.code


def test_a_part_after_one_that_stopped_early_is_dropped_with_its_files():
    parts = [lane(0, 5), lane(5, 10), lane(10, 15)]
    results = [
        came_to(n, each, reached)
        for n, (each, reached) in enumerate(zip(parts, (5, 8, 15), strict=True))
    ]

    assert results[:2] == valid_results(epoch(*parts), results)


def test_parts_of_other_partitions_or_tables_do_not_wait_for_each_other():
    parts = [lane(0, 5), lane(5, 10), lane(0, 9, 1), lane(20, 30, 0, "lake.b")]
    results = [came_to(0, parts[0], 2), came_to(1, parts[1], 10)]
    results += [came_to(2, parts[2], 9), came_to(3, parts[3], 30)]

    assert [0, 2, 3] == [each.number for each in valid_results(epoch(*parts), results)]


@pytest.mark.parametrize("reached", [-1, 6])
def test_a_lane_that_says_it_came_where_it_was_not_sent_is_a_bug(reached):
    each = lane(0, 5)
    result = TaskResult(0, (LaneResult(each, Offset(reached), 0, 0, None),))

    with pytest.raises(BugError, match="says") as raised:
        valid_results(epoch(each), [result])
    assert "P703" == raised.value.code


def test_a_table_that_failed_anywhere_gets_nothing_and_the_others_get_theirs():
    both = (TABLE, "lake.b")
    error = UnavailableError("no space left", code="P480")
    first = came_to(
        0, lane(0, 5, 0, *both), 5, files={TABLE: (file(5),), "lake.b": (file(5, "b"),)}
    )
    second = came_to(1, lane(0, 2, 1, *both), 2, failed={TABLE: error}, files={"lake.b": ()})
    tallies = {each: {part(0): Tally(5, 5)} for each in both}
    found = aggregate([TaskResult(**{**_fields(first), "tallies": tallies}), second])

    assert {"lake.b": {part(0): 5, part(1): 2}} == {
        n: dict(each.reached) for n, each in found.items()
    }
    assert {TABLE: error} == failures([first, second])


def _fields(result):
    return {name: getattr(result, name) for name in result.__slots__}


def test_books_that_do_not_balance_are_a_bug():
    result = came_to(0, lane(0, 5), 5, tallies={TABLE: {part(0): Tally(5, 4)}})

    with pytest.raises(BugError, match="5 records examined, but 4 landed"):
        aggregate([result])


def test_files_that_hold_other_than_the_books_say_are_a_bug():
    tallies = {TABLE: {part(0): Tally(5, 5)}}
    result = came_to(0, lane(0, 5), 5, tallies=tallies, files={TABLE: (file(4),)})

    with pytest.raises(BugError, match="files hold 4 rows") as raised:
        aggregate([result])
    assert "P704" == raised.value.code


@pytest.mark.parametrize(
    ("examined", "rejected", "share", "breaks"),
    [(200, 150, 0.5, True), (200, 100, 0.5, False), (3, 3, 0.1, False), (150, 150, 1.0, False)],
)
def test_a_table_is_flooded_above_the_share_and_not_by_a_handful(examined, rejected, share, breaks):
    tally = Tally(examined, examined - rejected, {}, {"P302": rejected})
    files = {TABLE: (file(examined - rejected),)}
    rejects = {TABLE: (file(rejected, "q"),)}
    result = came_to(
        0,
        lane(0, examined),
        examined,
        tallies={TABLE: {part(0): tally}},
        files=files,
        rejects=rejects,
    )

    assert ([TABLE] if breaks else []) == [*tables_over_reject_limit(aggregate([result]), share)]
    assert breaks == too_many_rejects(tally, share)


def test_a_flood_says_the_counts_and_the_three_reasons_that_were_given_most():
    tally = Tally(300, 0, {}, {"P364": 100, "P363": 200})
    said = {"a: text": 150, "b: too large": 90, "c: no zone": 10, "d: too long": 50}
    results = [
        came_to(
            number,
            lane(300 * number, 300 * number + 300),
            300 * number + 300,
            tallies={TABLE: {part(0): tally}},
            rejects={TABLE: (file(300, "q"),)},
            reasons={TABLE: said},
        )
        for number in range(2)
    ]
    (flood,) = tables_over_reject_limit(aggregate(results), 0.5).values()

    assert (
        f"{TABLE}: 600 of 600 records do not fit (P363 400, P364 200), more than "
        "quarantine.stop_above allows (50.0%): a: text, 300 times; b: too large, 180 times; "
        "d: too long, 100 times"
    ) == flood.message
    assert "P345" == flood.code
    assert isinstance(flood, DecisionNeededError)


def test_a_flood_is_reported_of_its_table_alone():
    bad, good = Tally(150, 0, {}, {"P302": 150}), Tally(150, 150)
    files, rejects = {"lake.b.well": (file(150),)}, {TABLE: (file(150, "q"),)}
    both = lane(0, 150, 0, TABLE, "lake.b.well")
    tallies = {TABLE: {part(0): bad}, "lake.b.well": {part(0): good}}
    result = came_to(0, both, 150, tallies=tallies, files=files, rejects=rejects)

    assert [TABLE] == [*tables_over_reject_limit(aggregate([result]), 0.5)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("epochs", [(3, 4, 9), (4, None, 9), (None, 4, 9)])
def test_the_epoch_after_a_range_is_that_of_the_part_that_came_farthest(order, epochs):
    """The third part read nothing: what it was given says nothing of the position it is at."""
    parts = [(lane(0, 5), 5), (lane(5, 10), 10), (lane(10, 15), 10)]
    results = [came_to(n, *parts[n], leader_epoch=epochs[n]) for n in order]

    assert {part(0): epochs[1]} == aggregate(results)[TABLE].leader_epochs


def test_a_table_is_surveyed_whole_or_not_at_all():
    down = UnavailableError("the registry does not answer", code="P220", hint="look")
    first, second = Struct((Field("a", Kind.LONG),)), Struct((Field("b", Kind.LONG),))
    results = [
        TaskResult(number=0, schemas={TABLE: first, "other": first}),
        TaskResult(number=1, schemas={"other": second}, failed={TABLE: down}),
    ]

    assert {"other": Struct((*first.fields, *second.fields))} == joined_schemas(results)


def test_what_tasks_spell_in_different_cases_is_one_column():
    def seen(*names):
        return Struct(tuple(Field(name, Kind.LONG) for name in names))

    results = [
        TaskResult(number=0, schemas={TABLE: seen("id", "Colour")}),
        TaskResult(number=1, schemas={TABLE: seen("id", "colour", "size")}),
    ]
    assert {TABLE: seen("id", "Colour", "size")} == joined_schemas(results)


class TestKeyedTables:
    """Two slices of one partition change the key 1; the first also deletes the key 9."""

    @staticmethod
    def touched(rows):
        """List `(key, upsert, offset, file, row)` as a slice does."""
        key, upsert, offset, place, row = (np.array(each) for each in zip(*rows, strict=True))
        count = len(rows)
        changes = Changes(
            pa.RecordBatch.from_pydict({"n": key}),
            upsert,
            np.ones(count, np.bool_),
            np.zeros(count, np.int32),
            offset,
            np.zeros(count, np.int8),
        )
        places = place.astype(np.int32), row
        return touched_to_bytes(changes, ["n"], [part(0)], places, {})

    @pytest.fixture
    def results(self):
        first = self.touched([(1, True, 2, 0, 0), (9, False, 4, -1, -1)])
        second = self.touched([(1, True, 7, 0, 0), (2, True, 9, 1, 0)])
        return [
            came_to(
                0,
                lane(0, 5),
                5,
                files={TABLE: (file(1, "a"),)},
                tallies={TABLE: {part(0): Tally(5, 2, {"tombstone": 1}, superseded=2)}},
                touched={TABLE: (first,)},
            ),
            came_to(
                1,
                lane(5, 10),
                10,
                files={TABLE: (file(1, "b"), file(1, "c"))},
                tallies={TABLE: {part(0): Tally(5, 2, superseded=3)}},
                touched={TABLE: (second,)},
            ),
        ]

    def test_the_last_change_of_a_key_stays_and_files_without_a_row_are_left_out(self, results):
        found = aggregate(results)[TABLE]

        assert ["b", "c"] == [each.path for each in found.files]
        assert Tally(10, 3, {"tombstone": 1}, superseded=6) == found.total
        assert (("n",), 0) == (found.merged.names, found.merged.across)
        merged = touched_from_bytes(found.merged.touched)
        assert {1: 0, 2: 1, 9: -1} == dict(
            zip(merged.keys[0].to_pylist(), merged.file.tolist(), strict=True)
        )

    def test_what_a_dropped_slice_touches_is_dropped_with_it(self, results):
        short = replace(results[0], lanes=(replace(results[0].lanes[0], reached=Offset(3)),))
        planned = epoch(lane(0, 5), lane(5, 10))
        found = aggregate(valid_results(planned, [short, results[1]]))[TABLE]

        assert ["a"] == [each.path for each in found.files]
        assert {1, 9} == {*touched_from_bytes(found.merged.touched).keys[0].to_pylist()}

    def test_files_with_other_rows_than_the_changes_bring_are_a_bug(self, results):
        results[1] = replace(results[1], files={TABLE: (file(1, "b"), file(2, "c"))})

        with pytest.raises(
            BugError, match=r"hold 3 rows .* and 2 rows are wanted of them"
        ) as raised:
            aggregate(results)
        assert "P704" == raised.value.code

    def test_changes_that_are_counted_twice_are_a_bug(self, results):
        books = {TABLE: {part(0): Tally(6, 3, superseded=3)}}
        results[1] = replace(results[1], tallies=books)

        with pytest.raises(BugError, match=r"(?m)of 3 records; the counts say 4 and 0$") as raised:
            aggregate(results)
        assert "P704" == raised.value.code
