"""What is known of rows by bounds answers each question about them as their own columns do."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.commit.known_sources import known_source
from penstock.core.offsets import TopicPartition
from penstock.ports.row_deletes import LiveFile

SOURCE = {"topic": "_topic", "partition": "_partition", "offset": "_offset"}
LANES = [TopicPartition(f"id of {topic}", number, topic) for topic in "ab" for number in range(2)]
Row = tuple[str | None, int | None, int | None]
ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab") | st.none(),
        st.integers(0, 1) | st.none(),
        st.integers(0, 9) | st.none(),
    ),
    min_size=1,
    max_size=4,
) | st.lists(st.tuples(st.just("a"), st.just(1), st.integers(0, 9)), min_size=1, max_size=4)
OFFSETS = st.dictionaries(st.sampled_from(LANES), st.integers(0, 10))


def file_of(rows: list[Row], wider: int) -> LiveFile:
    """Describe a file; bounds of offsets may be wider than its values."""
    columns: dict[str, list[Any]] = {
        name: [row[at] for row in rows if row[at] is not None]
        for at, name in enumerate(SOURCE.values())
    }
    bounds = {name: (min(each), max(each)) for name, each in columns.items() if each}
    if "_offset" in bounds:
        least, greatest = bounds["_offset"]
        bounds["_offset"] = least - wider, greatest + wider
    nulls = {name: len(rows) - len(each) for name, each in columns.items()}
    return LiveFile("f", len(rows), 1, bounds=bounds, nulls=nulls)


def answers(row: Row, first: dict[TopicPartition, int], since: dict[TopicPartition, int]) -> object:
    """Return what a commit asks of a row, for a change of each partition from its first one on."""
    topic, partition, offset = row
    place = topic, partition
    return (
        [place == (at.topic, at.partition) for at in LANES],
        [
            (place == (at.topic, at.partition)) and (offset or 0) > begin
            for at, begin in first.items()
        ],
        [
            (place == (at.topic, at.partition)) and (offset or 0) < begin
            for at, begin in since.items()
        ],
    )


@given(ROWS, OFFSETS, OFFSETS, st.integers(0, 2))
@example([("a", 1, 3)], {LANES[1]: 4}, {LANES[1]: 4}, 0)
def test_known_sources_answer_as_those_of_each_row(
    rows: list[Row], first: dict[TopicPartition, int], since: dict[TopicPartition, int], wider: int
) -> None:
    known = known_source(file_of(rows, wider), SOURCE, first, since.items())
    for row in rows:
        taken = tuple(known.get(role, own) for role, own in zip(SOURCE, row, strict=True))

        assert answers(row, first, since) == answers(taken, first, since)


def test_a_file_of_one_partition_from_before_the_changes_is_known_whole() -> None:
    file = file_of([("a", 1, 3), ("a", 1, 7)], 0)

    assert {"topic": "a", "partition": 1, "offset": 7} == known_source(
        file, SOURCE, {LANES[1]: 8}, [(LANES[1], 0)]
    )
    assert {"topic": "a", "partition": 1} == known_source(file, SOURCE, {LANES[1]: 7}, [])
    assert {"topic": "a", "partition": 1} == known_source(file, SOURCE, {}, [(LANES[1], 5)])


def test_nothing_is_known_of_a_column_with_nulls_or_without_counts() -> None:
    bounds: dict[str, tuple[Any, Any]] = {"_topic": ("a", "a"), "_partition": (1, 1)}
    file = LiveFile("f", 2, 1, bounds=bounds, nulls={"_topic": 1})

    assert {} == known_source(file, SOURCE, {}, [])
