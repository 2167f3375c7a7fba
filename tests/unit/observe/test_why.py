"""Why nothing moves: one sentence, the gravest cause first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.observe.snapshot import (
    Parked,
    PendingEpoch,
    Reading,
    Silence,
    Snapshot,
    Stall,
    State,
    TableStatus,
    Waiting,
    Widened,
)
from penstock.observe.why import Grade, why

NOW = 1_763_721_600_000
A, B = "lake.a", "lake.b"
LEVEL = TableStatus(lag_records=0)
PARKED = TableStatus(parked=Parked("P430", f"{A}: no answer", NOW - 60_000, "wait"))
PAUSED = TableStatus(paused_until_ms=NOW + 300_000)
RUNNING = Snapshot(
    "shop",
    State.RUNNING,
    NOW - 600_000,
    NOW - 1_000,
    generation=4,
    lag={"t": 0},
    tables={A: LEVEL, B: LEVEL},
)
SILENT = Silence(NOW - 120_000, NOW - 1_000)
WIDE = Widened(A, 21_000, 300.0, 10.0)
BUSY = TableStatus(recent=((NOW - 1_000, 3_000),), lag_records=9_000)

CASES = {
    "level": (RUNNING, {}, Grade.FLOWS, "Everything flows: all that is in Kafka is in the tables"),
    "unknown lag": (replace(RUNNING, lag={}), {}, Grade.FLOWS, "Everything flows"),
    "behind": (
        replace(RUNNING, lag={"t": 12}),
        {},
        Grade.FLOWS,
        "Everything flows: 12 records behind",
    ),
    "catching up": (
        replace(RUNNING, state=State.CATCHING_UP, lag={"t": 9_000}, tables={A: BUSY}),
        {},
        Grade.FLOWS,
        "Everything flows: 9,000 records behind, about 1m 30s of work",
    ),
    "one of two is parked": (
        replace(RUNNING, tables={A: PARKED, B: LEVEL}),
        {},
        Grade.HELD,
        "lake.a has been parked for 1m 00s: no answer; 1 other flows",
    ),
    "all are parked": (
        replace(RUNNING, tables={A: PARKED, B: PARKED}),
        {},
        Grade.STANDS,
        "lake.a has been parked for 1m 00s: no answer; 1 more table waits",
    ),
    "a parked one is paused": (
        replace(RUNNING, tables={A: replace(PARKED, paused_until_ms=NOW + 60_000), B: LEVEL}),
        {},
        Grade.HELD,
        "lake.a paused for 1m 00s more; 1 other flows",
    ),
    "not committed": (
        replace(RUNNING, tables={A: TableStatus(pending=(PendingEpoch(1, 9, NOW),)), B: LEVEL}),
        {"stall": Stall((A,), None, NOW - 30_000)},
        Grade.HELD,
        "Records read 30s ago are not committed in lake.a; 1 other flows",
    ),
    "a reader hangs": (
        replace(RUNNING, reading=Reading(7), waiting=Waiting("Java", NOW - 9_000)),
        {"stall": Stall((), 7, NOW - 45_000)},
        Grade.STANDS,
        "Epoch 7 has been read for 45s: it waits for Java",
    ),
    "no broker": (
        replace(RUNNING, silence=SILENT, tables={A: PARKED}),
        {},
        Grade.STANDS,
        "No broker has answered for 2m 00s",
    ),
    "brokers answered since": (
        replace(RUNNING, silence=replace(SILENT, reported_ms=NOW - 61_000)),
        {},
        Grade.FLOWS,
        "Everything flows: all that is in Kafka is in the tables",
    ),
    "a transaction": (
        RUNNING,
        {"holdups": ["open transaction x holds up t[0]"]},
        Grade.HELD,
        "open transaction x holds up t[0]",
    ),
    "paused": (
        replace(RUNNING, tables={A: PAUSED, B: PAUSED}),
        {},
        Grade.HELD,
        "lake.a, and 1 more table paused for 5m 00s more",
    ),
    "wide epochs": (
        replace(RUNNING, widened=WIDE),
        {},
        Grade.HELD,
        "Epochs are 5m 00s apart instead of 10.0 s: lake.a has 21,000 files too many",
    ),
    "starting": (
        replace(RUNNING, state=State.STARTING, waiting=Waiting("Java and Spark", NOW - 12_000)),
        {},
        Grade.HELD,
        "It starts, and has waited 12s for Java and Spark",
    ),
    "recovering": (
        replace(RUNNING, recovering=3),
        {},
        Grade.HELD,
        "It settles 3 commits of an earlier run",
    ),
    "stopping": (
        replace(RUNNING, state=State.STOPPING),
        {},
        Grade.HELD,
        "It stops after the current epoch",
    ),
    "stands by": (
        replace(RUNNING, state=State.STANDBY, reason="ready to take over"),
        {},
        Grade.FLOWS,
        "It stands by, ready to take over",
    ),
    "never run": (
        replace(RUNNING, state=State.STOPPED, updated_ms=0),
        {"running": False},
        Grade.STANDS,
        "Nobody runs it, and no run has said anything here",
    ),
    "stopped": (
        replace(RUNNING, state=State.STOPPED, reason="asked to stop", updated_ms=NOW - 90_000),
        {"running": False},
        Grade.STANDS,
        "It was stopped 1m 30s ago: asked to stop",
    ),
    "failed": (
        replace(RUNNING, state=State.FAILED, reason="no\nroom", code="P480"),
        {"running": False},
        Grade.STANDS,
        "The last run failed 1s ago: no room",
    ),
    "killed": (
        replace(RUNNING, state=State.STOPPED),
        {"running": False},
        Grade.STANDS,
        "Nobody runs it: the last run was heard 1s ago",
    ),
    "runs, and is not heard": (
        RUNNING,
        {"tells": False},
        Grade.HELD,
        "It runs, and says nothing of itself here",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_cause_has_its_sentence(case: str) -> None:
    snapshot, given, grade, text = CASES[case]
    found = why(snapshot, NOW, **{"running": True, **given})

    assert (grade, text) == (found.grade, found.text)


def test_a_cause_has_its_code_and_what_to_do() -> None:
    parked = why(replace(RUNNING, tables={A: PARKED}), NOW, running=True)
    failed = replace(RUNNING, state=State.FAILED, reason="x", code="P480")
    ended = why(failed, NOW, running=False)

    assert ("P430", "wait") == (parked.code, parked.hint)
    assert ("P480", "penstock explain P480") == (ended.code, ended.hint)
