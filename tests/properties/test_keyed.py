"""The net of changes is the fold, however they are cut; look-ups find each touched key and no other."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.rows.keyed import touched as touched_module
from penstock.rows.keyed.digest import DIGEST, key_digests
from penstock.rows.keyed.lookup import KeyLookup
from penstock.rows.keyed.merge import merge_touched
from penstock.rows.keyed.net import Changes, net_by_lane
from penstock.rows.keyed.sequence import numbers_of_both, sequence_numbers
from penstock.rows.keyed.touched import touched_from_bytes, touched_to_bytes

Change = tuple[int, bool, int, int, int]
"""Key, whether it brings a row, lane, offset, place in the record."""

CHANGES = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.booleans(),
        st.integers(0, 2),
        st.integers(0, 30),
        st.integers(0, 1),
    ),
    max_size=40,
    unique_by=lambda each: each[2:5],
)


def changes_of(given_changes: list[Change]) -> Changes:
    rows = pa.RecordBatch.from_pylist(
        [{"k": f"key {k}"} for k, *_ in given_changes], pa.schema([("k", pa.string())])
    )
    columns = [[each[place] for each in given_changes] for place in range(5)]
    return Changes(
        rows,
        np.array(columns[1], np.bool_),
        np.array(columns[4], np.int8) == 0,
        np.array(columns[2], np.int32),
        np.array(columns[3], np.int64),
        np.array(columns[4], np.int8),
    )


def places(changes: Changes) -> dict[tuple[str, int], tuple[int, ...]]:
    found: dict[tuple[str, int], tuple[int, ...]] = {}
    for place, key in enumerate(changes.rows.column("k").to_pylist()):
        at = (int(changes.lane[place]), int(changes.offset[place]), int(changes.sub[place]))
        assert (key, at[0]) not in found
        found[key, at[0]] = (*at, bool(changes.upsert[place]))
    return found


def folded(given_changes: Iterable[Change]) -> dict[str, tuple[int, ...]]:
    """Apply changes one after another in the order of the fold, by hand."""
    ordered = sorted(given_changes, key=lambda c: c[2:5])
    return {f"key {k}": (lane, offset, sub, up) for k, up, lane, offset, sub in ordered}


@given(CHANGES, st.data())
def test_the_net_is_the_fold_of_each_partition_however_changes_are_cut_into_batches(
    given_changes: list[Change], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(given_changes))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(shuffled)), max_size=3)))
    bounds = list(zip([0, *cuts], [*cuts, len(shuffled)], strict=True))
    batches = [net_by_lane(changes_of(shuffled[a:b]), ["k"]) for a, b in bounds]
    whole = net_by_lane(Changes.concat([each.changes for each in batches]), ["k"])
    superseded = [sum(each.superseded.values()) for each in (*batches, whole)]
    counted = sum(sub == 0 for _, _, _, _, sub in given_changes)

    assert places(whole.changes) == {
        (key, lane): place
        for lane in range(3)
        for key, place in folded(each for each in given_changes if each[2] == lane).items()
    }
    assert counted == int(whole.changes.counts.sum()) + sum(superseded)


@given(CHANGES, st.data())
def test_the_net_by_sequence_is_the_fold_by_sequence_however_changes_are_cut(
    given_changes: list[Change], data: st.DataObject
) -> None:
    """The sequence is of two columns, drawn for each change; the order of the log is second to it."""
    drawn = data.draw(
        st.lists(
            st.tuples(st.integers(-1, 1), st.sampled_from(["", "a", "ab", "é"])),
            min_size=len(given_changes),
            max_size=len(given_changes),
        )
    )
    by_place = dict(zip((each[2:5] for each in given_changes), drawn, strict=True))
    shuffled = data.draw(st.permutations(given_changes))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(shuffled)), max_size=3)))
    bounds = list(zip([0, *cuts], [*cuts, len(shuffled)], strict=True))
    slices = [sequenced(shuffled[a:b], by_place) for a, b in bounds]
    netted = [net_by_lane(each, ["k"], ["s", "t"]) for each in slices]
    files: list[int] = []
    parts = []
    for each in netted:
        number = np.arange(len(each.changes.offset), dtype=np.int64)
        at = (np.zeros(len(number), np.int32), number)
        content = touched_to_bytes(each.changes, ["k"], AT, at, {}, sequence=["s", "t"])
        parts.append((content, len(files)))
        files.append(len(number))
    merged = merge_touched(data.draw(st.permutations(parts)), files)
    touched = touched_from_bytes(merged.touched)
    by_key: dict[int, list[Change]] = {}
    for change in given_changes:
        by_key.setdefault(change[0], []).append(change)

    def place_of(change: Change) -> tuple[tuple[int, str], Change]:
        return by_place[change[2:5]], change[2:5]

    last = [max(each, key=place_of) for each in by_key.values()]
    ends = {
        key: [max((c for c in each if c[2] == lane), key=place_of) for lane in {c[2] for c in each}]
        for key, each in by_key.items()
    }

    found = zip(touched.lane.tolist(), touched.offset.tolist(), touched.sub.tolist(), strict=True)
    assert sorted(each[2:5] for each in last) == sorted(found)
    assert ("s", "t") == merged.sequence == tuple(touched.sequence)
    assert {by_place[each[2:5]] for each in last} == {
        *zip(*(column.to_pylist() for column in touched.sequence.values()), strict=True)
    }
    # A slice hands on the last change of a key in a partition, so an earlier one may not be seen.
    least, most = (
        sum(len(_lanes_at_the_top(each, by_place)) > 1 for each in of.values())
        for of in (ends, by_key)
    )
    assert least <= merged.across <= most


def _lanes_at_the_top(
    given_changes: list[Change], by_place: dict[tuple[int, ...], tuple[int, str]]
) -> set[int]:
    """Return the partitions with a change of the highest sequence that is none of a former key."""
    top = max(by_place[each[2:5]] for each in given_changes)
    return {each[2] for each in given_changes if each[4] == 0 and by_place[each[2:5]] == top}


def sequenced(
    given_changes: list[Change], by_place: dict[tuple[int, ...], tuple[int, str]]
) -> Changes:
    """Let changes bring rows with a sequence in `s` and `t`."""
    made = changes_of([(key, True, *place) for key, _, *place in given_changes])
    drawn = [by_place[each[2:5]] for each in given_changes]
    columns = [
        pa.array([s for s, _ in drawn], pa.int32()),
        pa.array([t for _, t in drawn], pa.string()),
    ]
    rows = pa.RecordBatch.from_arrays([made.rows.column("k"), *columns], ["k", "s", "t"])
    return replace(made, rows=rows)


VALUES = {
    pa.int32(): [None, -3, 0, 7],
    pa.date32(): [None, dt.date(1, 1, 1), dt.date(2024, 5, 5)],
    pa.timestamp("us", "UTC"): [
        None,
        dt.datetime(1900, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    ],
    pa.decimal128(38, 2): [None, decimal.Decimal("-1.25"), decimal.Decimal("9" * 30 + ".5")],
    pa.string(): [None, "", "Z", "a", "é", "😀"],
    pa.binary(): [None, b"", b"\x00", b"\xff"],
    pa.time64("us"): [None, dt.time(1), dt.time(23)],
    pa.bool_(): [None, False, True],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_sequences_of_each_type_compare_as_their_values_and_null_is_before_all(kind) -> None:
    values = VALUES[kind]
    numbers = sequence_numbers([pa.array(values, kind)]).tolist()

    assert sorted(set(numbers)) == numbers
    twice = [pa.array(each, kind) for each in (values[::-1], values)]
    first, second = numbers_of_both([twice[0]], [twice[1]])
    assert first.tolist() == second.tolist()[::-1]


def test_sequences_compare_after_a_column_was_widened() -> None:
    narrow, wide = pa.array([5, 6], pa.int32()), pa.array([5, 1 << 40], pa.int64())
    first, second = numbers_of_both([narrow], [wide])

    assert (True, True) == (first[0] == second[0], first[1] < second[1])


AT = [TopicPartition("topic", number, "orders") for number in range(3)]


def part_of(changes: Changes) -> tuple[bytes, int]:
    """Write the rows of changes into one file, if there are any: the part, and how many files."""
    file = np.where(changes.upsert, 0, -1).astype(np.int32)
    row = np.where(changes.upsert, np.cumsum(changes.upsert) - 1, -1)
    content = touched_to_bytes(changes, ["k"], AT, (file, row), {"topic": "t"})
    return content, int(changes.upsert.any())


@given(CHANGES, st.data())
def test_parts_merge_to_the_net_and_the_rows_that_stay_are_its_rows(
    given_changes: list[Change], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(given_changes))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(shuffled)), max_size=3)))
    bounds = list(zip([0, *cuts], [*cuts, len(shuffled)], strict=True))
    slices = [net_by_lane(changes_of(shuffled[a:b]), ["k"]) for a, b in bounds]
    files: list[list[tuple[Any, ...]]] = []
    parts = []
    for each in slices:
        content, written = part_of(each.changes)
        parts.append((content, len(files)))
        files += [list(rows_of(each.changes))] * written
    merged = merge_touched(data.draw(st.permutations(parts)), [len(rows) for rows in files])
    touched = touched_from_bytes(merged.touched)
    kept = [files[ordinal] for ordinal in merged.files]
    gone = set(zip(touched.superseded_file.tolist(), touched.superseded_row.tolist(), strict=True))
    left = [
        row
        for ordinal, rows in enumerate(kept)
        for place, row in enumerate(rows)
        if (ordinal, place) not in gone
    ]
    whole = folded(given_changes)
    lost = sum(merged.superseded.values()) + sum(sum(e.superseded.values()) for e in slices)

    assert sorted((key, *at) for key, (*at, up) in whole.items() if up) == sorted(left)
    assert len(gone) == len(touched.superseded_file)
    assert whole == {
        key: (int(lane), int(offset), int(sub), bool(up))
        for key, lane, offset, sub, up in zip(
            touched.keys[0].to_pylist(),
            touched.lane,
            touched.offset,
            touched.sub,
            touched.upsert,
            strict=True,
        )
    }
    assert {row: (row in left) for row in left} == {
        kept[file][row]: True
        for file, row in zip(touched.file.tolist(), touched.row.tolist(), strict=True)
        if file >= 0
    }
    assert touched.digests == key_digests(touched.keys)
    assert int(changes_of(given_changes).counts.sum()) == int(touched.counts.sum()) + lost
    assert touched.across == merged.across == across(each.changes for each in slices)
    assert all(
        len(rows) > sum(file == ordinal for file, _ in gone) for ordinal, rows in enumerate(kept)
    )


def rows_of(changes: Changes) -> Iterator[tuple[Any, ...]]:
    """Yield key, lane, offset and sub of the changes that bring a row."""
    for place in np.flatnonzero(changes.upsert).tolist():
        at = (changes.lane, changes.offset, changes.sub)
        yield changes.rows.column("k")[place].as_py(), *(int(each[place]) for each in at)


def across(slices: Iterable[Changes]) -> int:
    """Count the keys of which changes that count are in two lanes."""
    lanes: dict[str, set[int]] = {}
    for changes in slices:
        for place in np.flatnonzero(changes.counts).tolist():
            key = changes.rows.column("k")[place].as_py()
            lanes.setdefault(key, set()).add(int(changes.lane[place]))
    return sum(len(each) > 1 for each in lanes.values())


@pytest.mark.parametrize("least", [7, (1 << 62) + 5])
def test_offsets_far_from_each_other_are_in_order(least: int) -> None:
    changes = changes_of([(0, True, lane, at, 0) for lane in (0, 1) for at in (0, least)])
    merged = merge_touched([(part_of(changes)[0], 0)], [4])
    touched = touched_from_bytes(merged.touched)

    assert [(1, least)] == list(zip(touched.lane.tolist(), touched.offset.tolist(), strict=True))


def test_lanes_of_parts_are_partitions_whatever_their_numbers() -> None:
    first, second = (TopicPartition(topic, 0, "orders") for topic in ("a", "b"))
    changes = changes_of([(0, True, 0, 5, 0)])
    place = (np.zeros(1, np.int32), np.zeros(1, np.int64))
    later = touched_to_bytes(changes, ["k"], [second], place, {})
    earlier = touched_to_bytes(changes, ["k"], [first], place, {})
    merged = merge_touched([(later, 0), (earlier, 1)], [1, 1])
    touched = touched_from_bytes(merged.touched)

    assert ({first: 1}, (0,), 1) == (merged.superseded, merged.files, merged.across)
    assert [second] == [touched.lanes[lane] for lane in touched.lane]


def test_digests_that_are_equal_in_their_first_half_are_apart() -> None:
    keys = [bytes(8) + bytes([end]) * 8 for end in (1, 2, 1, 2, 3)]
    rows = pa.RecordBatch.from_arrays([pa.array(keys, DIGEST)], ["k"])
    number = np.arange(5)
    yes = np.ones(5, np.bool_)
    changes = Changes(rows, yes, yes, np.zeros(5, np.int32), number, np.zeros(5, np.int8))
    content = touched_to_bytes(changes, ["k"], AT, (np.zeros(5, np.int32), number), {})
    touched = touched_from_bytes(merge_touched([(content, 0)], [5]).touched)

    assert [2, 3, 4] == sorted(touched.offset.tolist())


@given(st.data())
def test_a_part_with_one_byte_changed_or_cut_off_is_refused(data: st.DataObject) -> None:
    content = part_of(changes_of([(0, True, 0, 5, 0), (1, False, 1, 5, 0)]))[0]
    place = data.draw(st.integers(0, len(content) - 1))
    other = content[place] ^ data.draw(st.integers(1, 255))
    for damaged in (content[:place], content[:place] + bytes([other]) + content[place + 1 :]):
        with pytest.raises(InvalidError) as refused:
            touched_from_bytes(damaged)
        assert "P191" == refused.value.code


@pytest.mark.parametrize(
    "content", [b"", b"keys", bytes(4), bytes(8), crc32(b"{}").to_bytes(4) + b"{}"]
)
def test_what_are_no_keys_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidError) as refused:
        touched_from_bytes(content)

    assert "P191" == refused.value.code


def test_keys_of_a_newer_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = touched_module.VERSION + 1
    monkeypatch.setattr(touched_module, "VERSION", newer)
    changes, place = changes_of([(0, True, 0, 5, 0)]), np.zeros(1, np.int64)
    at = (place.astype(np.int32), place)
    content = touched_to_bytes(changes, ["k"], AT, at, {}, retry=touched_module.Retry.REPLACES)
    monkeypatch.undo()
    with pytest.raises(InvalidError, match=f"version {newer}") as refused:
        touched_from_bytes(content)

    assert "P190" == refused.value.code


DAYS = st.dates()
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    "long": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), DAYS),
    "time": (pa.time64("us"), st.times()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "timestamptz": (
        pa.timestamp("us", "UTC"),
        st.datetimes(timezones=st.just(dt.UTC)),
    ),
    "decimal": (
        pa.decimal128(20, 2),
        st.decimals(-(10**15), 10**15, places=2, allow_nan=False, allow_infinity=False),
    ),
    "uuid": (pa.binary(16), st.binary(min_size=16, max_size=16)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "string": (pa.string(), st.text(max_size=4)),
    "binary": (pa.binary(), st.binary(max_size=4)),
}


def look_up(keys: list[pa.Array]) -> KeyLookup:
    return KeyLookup(keys)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_a_look_up_finds_each_row_of_a_touched_key_and_no_other(
    kind: str, data: st.DataObject
) -> None:
    type_, values = KINDS[kind]
    touched = data.draw(st.lists(values, unique=True, max_size=8))
    rows = data.draw(st.lists(st.sampled_from([*touched, None]) | values | st.none(), max_size=20))
    offset = data.draw(st.integers(0, len(rows)))
    column = pa.array(rows, type_).slice(offset)
    looked_in = pa.record_batch({"id": column})
    found = look_up([pa.array(touched, type_)]).in_rows(looked_in, {"id": type_})
    expected = [
        (place, touched.index(value))
        for place, value in enumerate(rows[offset:])
        if value is not None and value in touched
    ]

    assert expected == list(zip(found.rows.tolist(), found.keys.tolist(), strict=True))


def test_keys_that_are_equal_in_their_first_half_are_told_apart() -> None:
    """Decimals that differ by a multiple of 2 ** 64 are, in a file of before they were widened."""
    type_ = pa.decimal128(38, 0)
    numbers = [decimal.Decimal(number << 64) for number in (2, 0, 1)]
    rows = pa.array([*reversed(numbers), decimal.Decimal(3 << 64)], pa.decimal128(30, 0))
    for touched in (numbers, numbers[1:], numbers[:1]):
        lookup = look_up([pa.array(touched, type_)])
        found = lookup.in_rows(pa.record_batch({"id": rows}), {"id": type_})
        looked_up = [
            (rows[row].as_py(), touched[key])
            for row, key in zip(found.rows, found.keys, strict=True)
        ]

        assert [(each, each) for each in reversed(touched)] == looked_up


@given(st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=2), st.integers(0, 3))))
def test_keys_of_several_columns_are_told_apart_wherever_one_ends(
    keys: list[tuple[str, bytes, int]],
) -> None:
    types = (pa.string(), pa.binary(), pa.int32())
    columns = [pa.array([key[i] for key in keys], type_) for i, type_ in enumerate(types)]
    digests = key_digests(columns).to_pylist()

    assert len(set(keys)) == len(set(digests))


def test_a_column_that_is_widened_keeps_its_digests() -> None:
    numbers = [0, 1, -1, (1 << 31) - 1]
    amounts = [decimal.Decimal("1.25"), decimal.Decimal("-0.01")]

    assert key_digests([pa.array(numbers, pa.int32())]) == key_digests([pa.array(numbers)])
    assert key_digests([pa.array(amounts, pa.decimal128(5, 2))]) == key_digests(
        [pa.array(amounts, pa.decimal128(30, 2))]
    )


def test_a_digest_is_what_it_was_when_it_was_first_written() -> None:
    columns = [pa.array(["a", "b"]), pa.array([1, 2])]
    digests = key_digests(columns)

    assert DIGEST == digests.type
    assert ["a00edd9213395e81", "162567cd55a47ba3"] == [
        each.hex()[:16] for each in digests.to_pylist()
    ]
