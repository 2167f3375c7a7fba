"""A summary gives what its entries would give one by one, in whatever parts they were read."""

from itertools import combinations

import pytest
from pyarrow import fs

from penstock.connectors.delta.log.reader import Entry, Log
from penstock.connectors.delta.log.summary import LogSummary, joined, past_of

FIRST = 5


def ours(version, *chains):
    return Entry(version, 1, "WRITE", {}, 0, {}, tuple({"chain": each} for each in chains))


ENTRIES = [
    ours(5, "a", "b"),
    None,
    Entry(7, 1, "OPTIMIZE", {}, 0, {}),
    Entry(8, 1, "RESTORE", {}, 2, {}),
    ours(9, "a"),
    Entry(10, 1, "DELETE", {"predicate": '["(id = 1)"]'}, 1, {}),
    Entry(11, 1, "WRITE", {"mode": "Overwrite"}, 0, {}),
    Entry(12, 1, "WRITE", {}, 3, {}, ({"chain": "c"},)),
    Entry(13, 1, "MERGE", {}, 1, {}, ({"chain": ["not", "a", "name"]}, {})),
]


def read(first, stop):
    return past_of(first, ENTRIES[first - FIRST : stop - FIRST])


def test_a_past_has_what_the_witnesses_ask_for():
    whole = read(5, 14)

    assert (5, 14, 6) == (whole.first, whole.stop, whole.missing)
    assert ((8, "a RESTORE"), (11, "an overwrite (WRITE)")) == whole.rollbacks
    assert ((8, "RESTORE"), (10, "DELETE"), (12, "WRITE"), (13, "MERGE")) == whole.changes
    assert {"a": ENTRIES[4], "b": ENTRIES[0], "c": ENTRIES[7]} == whole.newest
    assert [ENTRIES[4], ENTRIES[4], None] == [whole.own("a", since) for since in (5, 9, 10)]
    assert None is whole.own("d", 0)


def test_parts_that_touch_or_overlap_report_what_the_whole_reports():
    edges = range(5, 15)
    for start, meet, reach, stop in (
        (a, b, c, d)
        for a, d in combinations(edges, 2)
        for b in range(a, d + 1)
        for c in range(b, d + 1)
    ):
        parts = read(start, reach), read(meet, stop)
        assert read(start, stop) == joined(*parts) == joined(*reversed(parts))


def test_a_part_within_another_adds_nothing():
    assert read(5, 14) == joined(read(7, 9), read(5, 14)) == joined(read(5, 14), read(7, 9))


def test_pasts_with_a_stretch_between_them_do_not_join():
    with pytest.raises(AssertionError, match="is not known"):
        joined(LogSummary(5, 7), LogSummary(8, 9))


def test_of_acts_the_newest_are_kept():
    storm = [Entry(version, 1, "RESTORE", {}, 1, {}) for version in range(100)]
    parts = joined(past_of(0, storm[:60]), past_of(60, storm[60:]))

    assert past_of(0, storm) == parts
    assert list(range(68, 100)) == [version for version, _ in parts.rollbacks]


def test_missing_entries_are_not_requested_one_by_one(tmp_path):
    asked = []
    (tmp_path / "_delta_log").mkdir()

    def fetch(name):
        asked.append(name)
        return (tmp_path / "_delta_log" / name).read_bytes()

    log = Log(fs.LocalFileSystem(), str(tmp_path), fetch)
    for version in range(600, 900):
        (tmp_path / "_delta_log" / f"{version:020d}.json").write_text("{}")
    entries = list(log.entries(range(100, 900)))

    assert [*[None] * 500, *range(600, 900)] == [each and each.version for each in entries]
    assert [f"{version:020d}.json" for version in range(600, 900)] == sorted(asked)
