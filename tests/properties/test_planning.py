"""Plans cover what is to be read once, in budget, and split fairly."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.offsets import advanced, gaps_and_overlaps, span
from penstock.core.planning import Budget, Lane, cut, lanes_of, pack, plan, without_waiting
from penstock.testing.prepared import part

TABLES = ("a", "b", "c")
starts = st.integers(0, 40)
standings = st.dictionaries(
    st.sampled_from(TABLES),
    st.dictionaries(st.integers(0, 3).map(part), starts, max_size=4),
    max_size=3,
)
ends = st.dictionaries(st.integers(0, 3).map(part), st.integers(0, 60), max_size=4)
budgets = st.builds(
    Budget,
    records_max=st.integers(1, 200),
    bytes_max=st.integers(1, 20_000),
    slice_bytes=st.integers(1, 20_000),
    capacity=st.integers(0, 8),
    slice_bytes_min=st.integers(1, 5_000),
    record_bytes=st.dictionaries(st.integers(0, 3).map(part), st.floats(0.1, 1000), max_size=4),
    record_bytes_unknown=st.floats(1, 1000),
)


def large(**given_):
    return Budget(
        **{
            "records_max": 10**9,
            "bytes_max": 10**12,
            "slice_bytes": 64 << 20,
            "capacity": 4,
            **given_,
        }
    )


@given(standings, ends)
def test_the_lanes_of_a_table_lead_without_overlap_from_its_position_towards_the_end(
    positions, end
):
    for table, offsets in positions.items():
        for at, offset in offsets.items():
            ranges = [
                lane.covered
                for lane in lanes_of(positions, end)
                if lane.at == at and table in lane.tables
            ]
            assert [] == gaps_and_overlaps(ranges)
            if offset < end.get(at, 0):
                assert offset == ranges[0].start
                assert ranges[-1].stop <= end[at]
            else:
                assert [] == ranges


@given(standings, ends)
def test_lanes_of_stop_across_partitions_do_not_overlap_and_end_at_the_end(positions, end):
    by_partition = defaultdict(list)
    for lane in lanes_of(positions, end):
        by_partition[lane.at].append(lane.covered)
    for at, ranges in by_partition.items():
        assert [] == gaps_and_overlaps(ranges)
        assert end[at] == ranges[-1].stop


@given(standings, ends, ends)
def test_no_lane_reads_past_a_stop_that_lies_before_it(positions, end, stop):
    """Nothing else changes: what is read begins at the positions, and ends there or later."""
    stops = {at: {offset} for at, offset in stop.items()}
    plain, cut_there = lanes_of(positions, end), lanes_of(positions, end, stops)

    assert [(each.at, each.covered.start, each.tables) for each in plain] == [
        (each.at, each.covered.start, each.tables) for each in cut_there
    ]
    for before, after in zip(plain, cut_there, strict=True):
        start, at = before.covered.start, stop.get(before.at, -1)
        assert after.covered.stop == (
            min(at, before.covered.stop) if at > start else before.covered.stop
        )


@given(standings, ends)
def test_a_trailing_table_catches_up_and_goes_on_with_the_others(positions, end):
    """Repeated planning without a budget levels all tables in as many epochs as lie between them."""
    for _ in range(len(TABLES)):
        for lane in lanes_of(positions, end):
            for table in lane.tables:
                positions[table] = advanced(positions[table], {lane.at: lane.covered})

    assert [] == lanes_of(positions, end)


@given(standings, ends, budgets)
def test_a_plan_covers_the_beginning_of_every_lane_that_does_not_wait_once(positions, end, budget):
    lanes = without_waiting(lanes_of(positions, end), budget)
    planned = defaultdict(list)
    for piece in plan(1, positions, end, budget).slices:
        for lane in piece.lanes:
            planned[lane.at, lane.tables].append(lane.covered)
    wanted = defaultdict(list)
    for lane in lanes:
        wanted[lane.at, lane.tables].append(lane.covered)

    assert wanted.keys() == planned.keys()
    for key, ranges in planned.items():
        ranges.sort()
        assert all(piece.count for piece in ranges)
        for lane in wanted[key]:
            parts = [each for each in ranges if lane.start <= each.start < lane.stop]
            assert lane.start == parts[0].start
            assert parts[-1].stop <= lane.stop
            assert [] == gaps_and_overlaps(parts)


@given(standings, ends, budgets)
def test_a_plan_keeps_to_its_budget_and_gives_every_lane_some(positions, end, budget):
    lanes = lanes_of(positions, end)
    epoch = plan(1, positions, end, budget)

    assert epoch.records <= max(budget.records_max, len(lanes))
    assert all(lane.covered.count >= 1 for lane in cut(lanes, budget))


@given(standings, ends, budgets)
def test_a_lane_waits_only_for_one_that_comes_to_where_it_begins(positions, end, budget):
    """What is furthest behind in a partition is read always; of the others all wait, or none."""
    lanes = lanes_of(positions, end)
    found = without_waiting(lanes, budget)

    last = {lane.at: lane for lane in reversed(lanes)}
    assert set(last.values()) <= set(found) <= set(lanes)
    for at, behind in last.items():
        ahead = [lane for lane in lanes if lane.at == at][1:]
        assert [lane for lane in found if lane.at == at] in ([behind], [behind, *ahead])
        if not set(ahead) <= set(found):
            assert behind in cut([*last.values()], budget)


@given(standings, ends, budgets)
def test_plans_come_to_the_end_of_all(positions, end, budget):
    """Nobody waits for ever: epoch after epoch, all tables come to the end."""
    epochs_max = len(TABLES) * sum(end.values())  # each reads one record of a partition at least
    while (slices := plan(1, positions, end, budget).slices) and epochs_max:
        epochs_max -= 1
        for piece in slices:
            for lane in piece.lanes:
                for table in lane.tables:
                    positions[table] = advanced(positions[table], {lane.at: lane.covered})

    assert [] == lanes_of(positions, end)


@given(standings, st.integers(30, 200))
def test_tables_that_are_apart_meet_though_there_is_always_more_to_read(positions, records_max):
    end = {part(number): 10**6 for number in range(4)}
    for _ in range(30):
        for piece in plan(1, positions, end, large(records_max=records_max)).slices:
            for lane in piece.lanes:
                for table in lane.tables:
                    positions[table] = advanced(positions[table], {lane.at: lane.covered})

    lanes = lanes_of(positions, end)
    assert len({lane.at for lane in lanes}) == len(lanes)


@given(standings, ends, budgets)
def test_a_slice_that_holds_a_part_of_a_range_holds_nothing_else(positions, end, budget):
    whole = set(cut(lanes_of(positions, end), budget))
    for piece in pack(sorted(whole, key=lambda lane: (lane.at, lane.covered)), budget):
        if not set(piece.lanes) <= whole:
            assert 1 == len(piece.lanes)


@given(standings, ends, budgets)
def test_slices_are_numbered_and_hold_something(positions, end, budget):
    slices = plan(7, positions, end, budget).slices

    assert list(range(len(slices))) == [piece.number for piece in slices]
    assert all(piece.lanes for piece in slices)


@given(standings, ends, budgets)
def test_planning_is_a_function(positions, end, budget):
    backwards = {
        table: dict(reversed(list(offsets.items())))
        for table, offsets in reversed(list(positions.items()))
    }

    assert plan(1, positions, end, budget) == plan(1, backwards, end, budget)


def test_nothing_to_read_gives_no_slices():
    assert () == plan(1, {"a": {part(0): 5}}, {part(0): 5}, large()).slices
    assert () == plan(1, {}, {part(0): 5}, large()).slices
    assert () == plan(1, {"a": {part(0): 5}}, {part(0): 3}, large()).slices


def test_a_partition_without_an_end_is_left_to_the_next_epoch():
    epoch = plan(1, {"a": {part(0): 0, part(1): 0}}, {part(1): 4}, large())

    assert [Lane(part(1), span(0, 4), ("a",))] == [lane for s in epoch.slices for lane in s.lanes]


def test_a_thousand_quiet_partitions_make_few_slices():
    positions = {"a": {part(number): 0 for number in range(1_000)}}
    epoch = plan(1, positions, {part(number): 10 for number in range(1_000)}, large())

    assert 1_000 * 10 == epoch.records
    assert 1 <= len(epoch.slices) <= 4


def test_one_busy_partition_is_split_over_all_tasks():
    epoch = plan(1, {"a": {part(0): 0}}, {part(0): 1_000_000}, large())

    assert 4 <= len(epoch.slices) <= 8
    assert [1] * len(epoch.slices) == [len(piece.lanes) for piece in epoch.slices]
    assert 1_000_000 == epoch.records


def test_a_busy_partition_does_not_starve_quiet_ones():
    positions = {"a": {part(number): 0 for number in range(5)}}
    end = {part(0): 10_000_000, **{part(number): 10 for number in range(1, 5)}}
    lanes = cut(lanes_of(positions, end), large(records_max=1_000))

    assert [960, 10, 10, 10, 10] == [lane.covered.count for lane in lanes]


def test_tables_at_one_offset_share_a_lane_and_a_trailing_one_merges():
    positions = {"a": {part(0): 10}, "b": {part(0): 10}, "c": {part(0): 4}}

    assert [
        Lane(part(0), span(4, 10), ("c",)),
        Lane(part(0), span(10, 20), ("a", "b")),
    ] == lanes_of(positions, {part(0): 20})
    positions["c"] = {part(0): 10}
    assert [Lane(part(0), span(10, 20), ("a", "b", "c"))] == lanes_of(positions, {part(0): 20})


def planned(positions, end, budget):
    pieces = plan(1, positions, end, budget).slices
    return sorted((lane for piece in pieces for lane in piece.lanes), key=lambda each: each.covered)


def test_tables_an_epoch_behind_are_joined_however_much_more_there_is_to_read():
    positions = {"ahead": {part(0): 100}, "behind": {part(0): 0}}

    waits = planned(positions, {part(0): 10**6}, large(records_max=100))
    positions["behind"] = {part(0): 100}
    joined = planned(positions, {part(0): 10**6}, large(records_max=100))

    assert [Lane(part(0), span(0, 100), ("behind",))] == waits
    assert [Lane(part(0), span(100, 200), ("ahead", "behind"))] == joined


def test_tables_more_than_an_epoch_behind_stop_nobody_and_get_three_shares_of_four():
    positions = {"ahead": {part(0): 101}, "behind": {part(0): 0}}

    assert [
        Lane(part(0), span(0, 75), ("behind",)),
        Lane(part(0), span(101, 126), ("ahead",)),
    ] == planned(positions, {part(0): 10**6}, large(records_max=100))


def test_a_table_that_stops_before_it_comes_to_another_holds_it_up_for_nothing():
    positions = {"ahead": {part(0): 10}, "behind": {part(0): 0}}
    lanes = lanes_of(positions, {part(0): 20}, {part(0): {5}})

    assert lanes == without_waiting(lanes, large())
    assert [span(0, 5), span(10, 20)] == [lane.covered for lane in lanes]


def test_a_table_that_trails_in_stop_across_partitions_does_not_hold_up_the_others():
    positions = {"a": {part(0): 10, part(1): 0}, "b": {part(0): 0, part(1): 0}}
    lanes = lanes_of(positions, {part(0): 20, part(1): 5})

    assert Lane(part(1), span(0, 5), ("a", "b")) in lanes
    assert Lane(part(0), span(10, 20), ("a",)) in lanes
