import json

import pytest

from penstock.core.errors import InvalidError
from penstock.observe.snapshot import (
    LastCommit,
    Parked,
    PendingEpoch,
    Reading,
    Snapshot,
    Stall,
    State,
    TableStatus,
    from_json,
    rows_per_second,
    stalled,
    to_json,
)

FULL = Snapshot(
    "shop",
    State.CATCHING_UP,
    1_000,
    2_000,
    generation=3,
    owner="host:1",
    epoch=17,
    recovering=1,
    reading=Reading(17, 5, 1_500),
    lag={"flights": 9},
    tables={
        "lake.a": TableStatus(
            rows=10,
            commits=1,
            files=2,
            size_bytes=500,
            last_commit=LastCommit(1_900, 16, "append", 10, 2, 500, "81234", 0.02),
            pending=(PendingEpoch(17, 3, 1_950),),
            valid_through_ms=1_800,
            lag_records=4,
            parked=Parked("P404", "gone", 1_700),
            quarantined={"P301": 2},
            recent=((1_900, 10),),
        )
    },
    reason="because",
    code="P201",
    clean=False,
)


def waiting(since_ms: int) -> TableStatus:
    return TableStatus(pending=(PendingEpoch(1, 5, since_ms),))


def running(**tables: TableStatus) -> Snapshot:
    return Snapshot("shop", State.RUNNING, 0, 0, tables=tables)


def test_what_was_written_reads_back_equal() -> None:
    assert (FULL, 2_500) == from_json(to_json(FULL, written_ms=2_500))


def test_the_json_form_is_this() -> None:
    data = json.loads(to_json(FULL, written_ms=2_500))

    assert (1, 2_500) == (data["v"], data["written_ms"])
    assert "catching up" == data["snapshot"]["state"]
    assert {
        "rows": 10,
        "commits": 1,
        "files": 2,
        "size_bytes": 500,
        "last_commit": {
            "at_ms": 1_900,
            "epoch": 16,
            "kind": "append",
            "rows": 10,
            "files": 2,
            "size_bytes": 500,
            "snapshot": "81234",
            "seconds": 0.02,
        },
        "pending": [{"epoch": 17, "rows": 3, "since_ms": 1_950}],
        "valid_through_ms": 1_800,
        "lag_records": 4,
        "parked": {"code": "P404", "reason": "gone", "since_ms": 1_700, "hint": ""},
        "quarantined": {"P301": 2},
        "recent": [[1_900, 10]],
        "changes": {},
        "rewritten_bytes": 0,
        "table_rows": None,
        "offsets": {},
        "paused_until_ms": None,
        "purged_through_ms": None,
        "table_files": None,
        "health": None,
    } == data["snapshot"]["tables"]["lake.a"]


def test_keys_that_are_not_known_are_passed_over() -> None:
    data = json.loads(to_json(FULL, written_ms=1))
    data["snapshot"]["weather"] = "fine"

    assert (FULL, 1) == from_json(json.dumps(data).encode())


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"v": 1}', b'{"v": "1"}', b"\xff", to_json(FULL, written_ms=1)[:-9]],
)
def test_what_is_no_status_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidError) as caught:
        from_json(text)

    assert "P590" == caught.value.code


def test_a_newer_version_is_refused_with_what_it_needs() -> None:
    with pytest.raises(InvalidError, match="of version 2; this Penstock reads 1"):
        from_json(b'{"v": 2, "status": {}}')


def test_what_waits_for_less_than_two_intervals_is_no_stall() -> None:
    assert None is stalled(running(a=waiting(1_000)), 21_000, 10_000)


def test_what_waits_longer_than_two_intervals_is_a_stall() -> None:
    snapshot = running(a=waiting(1_000), b=waiting(900), c=waiting(9_000), d=TableStatus())

    assert Stall(("a", "b"), None, 900) == stalled(snapshot, 21_001, 10_000)


def test_an_epoch_whose_reading_does_not_end_is_a_stall() -> None:
    snapshot = Snapshot("shop", State.RUNNING, 0, 0, reading=Reading(5, 100, 1_000))

    assert Stall((), 5, 1_000) == stalled(snapshot, 21_001, 10_000)


def test_an_epoch_that_has_read_nothing_is_no_stall() -> None:
    snapshot = Snapshot("shop", State.RUNNING, 0, 0, reading=Reading(5))

    assert None is stalled(snapshot, 99_000, 10_000)


def test_an_ended_pipeline_does_not_stall() -> None:
    snapshot = Snapshot("shop", State.STOPPED, 0, 0, tables={"a": waiting(0)})

    assert None is stalled(snapshot, 99_000, 10_000)


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    table = TableStatus(recent=((1_000, 7_000), (50_000, 600), (60_000, 300)))

    assert 30.0 == rows_per_second(table, 70_000, started_ms=0)


def test_the_rate_of_a_young_run_is_that_since_its_start() -> None:
    table = TableStatus(recent=((8_000, 100), (9_000, 100)))

    assert 50.0 == rows_per_second(table, 10_000, started_ms=6_000)


def test_a_rate_over_less_than_a_second_is_not_blown_up() -> None:
    assert 50.0 == rows_per_second(TableStatus(recent=((5, 50),)), 10, started_ms=0)
