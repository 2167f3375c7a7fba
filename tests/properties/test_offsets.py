"""The algebra of positions and ranges."""

from hypothesis import given
from hypothesis import strategies as st
from tests.properties.core_values import concatenated, positions

from penstock.core.offsets import (
    advanced,
    between,
    gaps_and_overlaps,
    span,
    stops,
    without_empty,
)

small = st.tuples(st.integers(0, 12), st.integers(0, 6)).map(lambda pair: span(pair[0], sum(pair)))
growths = st.dictionaries(st.integers(0, 4), st.integers(0, 9), max_size=5)


@given(positions, positions)
def test_between_leads_from_start_to_stop(start, more):
    stop = {at: offset + more.get(at, 0) for at, offset in start.items()}

    assert stop == advanced(start, between(start, stop))
    assert all(covered.count for covered in between(start, stop).values())


@given(positions, positions)
def test_nothing_lies_between_positions_that_do_not_grow(start, less):
    stop = {at: max(offset - less.get(at, 0), 0) for at, offset in start.items()}

    assert {} == between(start, stop)


@given(positions, positions, positions)
def test_two_stretches_joined_lead_where_both_lead(start, first, second):
    middle = {at: offset + first.get(at, 0) for at, offset in start.items()}
    end = {at: offset + second.get(at, 0) for at, offset in middle.items()}
    joined = concatenated(between(start, middle), between(middle, end))

    assert between(start, end) == joined
    assert stops(joined).items() <= end.items()


@given(st.dictionaries(st.integers(0, 3), small))
def test_without_empty_keeps_what_covers_something(progress):
    kept = without_empty(progress)

    assert {at for at, covered in progress.items() if covered.start < covered.stop} == kept.keys()


@given(st.lists(small, max_size=8))
def test_gaps_and_overlaps_agree_with_counting_offsets(ranges):
    """Exact for which offsets break the chain: gaps are uncovered within, overlaps covered again."""
    seen, gaps, again, reached = set(), set(), set(), None
    for covered in ranges:
        if reached is not None:
            gaps |= set(range(reached, covered.start))
            again |= {n for n in range(covered.start, covered.stop) if n < reached}
        seen |= set(range(covered.start, covered.stop))
        reached = covered.stop if reached is None else max(reached, covered.stop)
    found = gaps_and_overlaps(ranges)

    assert gaps == {n for kind, r in found if kind == "gap" for n in range(r.start, r.stop)}
    assert again == {n for kind, r in found if kind == "overlap" for n in range(r.start, r.stop)}


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(0, 5))
def test_a_chain_has_neither_gaps_nor_overlaps(lengths, start):
    ranges, at = [], start
    for length in lengths:
        ranges.append(span(at, at + length))
        at += length

    assert [] == gaps_and_overlaps(ranges)
