import io
import json
import logging
from dataclasses import replace
from datetime import timedelta, timezone
from typing import get_type_hints

import pytest
from tests.story.clock import START_MS, ManualClock

from penstock.core import events, maintenance_events, publication_events
from penstock.core.events import (
    CommitAborted,
    CommitConflicted,
    CommitFoundLanded,
    CommitLeftInDoubt,
    CoordinatorFenced,
    EpochPlanned,
    EpochPrepared,
    Event,
    FilesWritten,
    GapFound,
    HousekeepingFailed,
    PartitionStalled,
    PauseBegan,
    PipelineStarted,
    PipelineStopped,
    PoisonFound,
    RecordsQuarantined,
    SchemaChanged,
    SliceRead,
    TableAbsent,
    TableCommitted,
    TableCreated,
    TableParked,
    TableResumed,
    TopicUnrouted,
)
from penstock.observe.log import console_log, json_log, line_of, wants_colour, written_to

T = "lake.bronze.flights"
COMMIT = TableCommitted(17, T, "shop", "append", "c", "81", 20_000, 4, 1_234_567, 0.0249, 9)

COMMIT_LINE = (
    "10:40:00  lake.bronze.flights           "
    "epoch 17: 20,000 rows in 4 files, 1.2 MB, committed in 24 ms"
)

HEALTHY = [
    EpochPlanned(17, 2, 20_000, {"flights": 20_000}),
    SliceRead(17, 0, 10_000, 3_000_000, 0.4),
    SliceRead(17, 1, 10_000, 3_000_000, 0.4),
    FilesWritten(17, T, 4, 20_000, 1_234_567),
    EpochPrepared(17, 20_000, 1, 0.3),
    COMMIT,
    TableCommitted(17, "lake.quiet", "shop", "anchor", "c", "82", 0, 0, 0, 0.01),
]

LINES = [
    (
        events.ExchangeGivenUp(17, "it is cut short", "P481"),
        "warning: read again, without an exchange of rows: it is cut short (P481)",
    ),
    (
        PipelineStarted("shop", 3, "h:1", 2, 1),
        "started as generation 3, 2 tables, 1 commit to settle",
    ),
    (PipelineStarted("shop", 3, "h:1", 1, 0), "started as generation 3, 1 table"),
    (TableCreated(T, 19), "created with 19 columns"),
    (
        TableAbsent(T, "a"),
        "warning: not there: the next record that fits creates it, without rows of records before a",
    ),
    (events.ReplayProgressed(T, 2000, 9000), "2,000 of 9,000 offsets read again"),
    (events.KafkaAnswered(12.3), "answers again after 12.3 s"),
    (COMMIT, "epoch 17: 20,000 rows in 4 files, 1.2 MB, committed in 24 ms"),
    (
        replace(COMMIT, kind="row-delta", changes={"updated": 19_990, "late": 3}),
        "epoch 17: 19,990 updated, 3 late; 20,000 rows in 4 files, 1.2 MB, committed in 24 ms",
    ),
    (
        events.KeysAcrossPartitions(T, 2, 5),
        "warning: 2 keys changed in two partitions of one commit: the change of the higher one wins",
    ),
    (
        events.KeysAcrossPartitions(T, 0, 5),
        "5 rows of other partitions replaced: later commits win",
    ),
    (
        TableCommitted(0, T, "shop", "fence", "c", "83", 0, 0, 0, 0.01),
        "warning: fenced at snapshot 83",
    ),
    (
        CommitFoundLanded(T, "shop", "abcdef0123", as_prepared=True),
        "commit abcdef01 had landed already, as prepared",
    ),
    (
        CommitFoundLanded(T, "shop", "abcdef0123", as_prepared=False),
        "commit abcdef01 had landed already, with other files",
    ),
    (
        CommitConflicted(T, "shop", "abcdef0123", 2, "head moved"),
        "warning: commit abcdef01, attempt 2: the table changed: head moved",
    ),
    (
        CommitLeftInDoubt(T, "shop", "abcdef0123", 1, "timeout"),
        "warning: commit abcdef01, attempt 1: the answer was lost: timeout",
    ),
    (CommitAborted(T, "shop", "abcdef0123", "gap"), "warning: commit abcdef01 dropped: gap"),
    (
        GapFound(T, "shop", "abcdef0123"),
        "warning: commit abcdef01 is ahead of the table; planned again",
    ),
    (TableParked(T, "P404", "it is gone"), "error: parked, P404: it is gone"),
    (PauseBegan(T, 5_000), "warning: paused until 1970-01-01 00:00:05 UTC: nothing is committed"),
    (TableResumed(T, 65.0), "resumed after 1m 05s, catching up"),
    (
        RecordsQuarantined(18, T, {"P301": 3_000, "P310": 1}),
        "warning: epoch 18 quarantined records: 3,000 by P301, 1 by P310",
    ),
    (SchemaChanged(T, "add column", "tailnum: string"), "schema: add column, tailnum: string"),
    (CoordinatorFenced(3, 4, "h:2"), "error: generation 4 of h:2 took over from generation 3"),
    (PartitionStalled("flights-0", "no leader"), "warning: cannot be read: no leader"),
    (
        HousekeepingFailed("lake.orders", "the disk is full"),
        "warning: housekeeping failed, which does no harm: the disk is full",
    ),
    (
        publication_events.PublicationStopped(
            "p", "no answer", clean=False, code="P201", waits=True
        ),
        "warning: waits, and is tried again, P201: no answer",
    ),
    (
        maintenance_events.TableMaintained(T, 40, 2, 3, 7, 0),
        "files 40 → 2, 3 snapshots gone, 7 files swept",
    ),
    (
        maintenance_events.MaintenanceFailed(T, "P436  no"),
        "warning: not maintained; landing goes on: P436  no",
    ),
    (
        maintenance_events.EpochsWidened(T, 23_104, 480.0, 1.0),
        ("warning: 23,104 files more than would do: epochs are 8m 00s apart now, usually 1.0 s"),
    ),
    (
        maintenance_events.HoldExceeded(T, 23_104),
        "warning: 23,104 files more than would do; `penstock maintain` makes fewer of them",
    ),
    (
        PoisonFound(3, "flights-0", 17),
        "warning: offset 17 kills the process that reads it; the record is rejected, P343",
    ),
    (
        events.ConcurrencyLowered(3, 8, 4),
        (
            "warning: 8 slices together need more memory than workers have; at most 4 run at once "
            "for now: raise workers' memory, or lower slice_bytes"
        ),
    ),
    (events.TopicsGrew(T, 2), "2 partitions found: what was there before is read first"),
    (TopicUnrouted("audit"), "warning: no rule writes it to a table; its records are not read"),
    (PipelineStopped("shop", "SIGTERM", clean=True), "stopped: SIGTERM"),
    (
        PipelineStopped("shop", "1 of 2 tables is parked", clean=False),
        "stopped: 1 of 2 tables is parked",
    ),
    (
        PipelineStopped("shop", "the broker is gone", clean=False, code="P201"),
        "error: failed, P201: the broker is gone",
    ),
]


def test_a_healthy_epoch_is_one_line_per_commit(clock) -> None:
    lines: list[str] = []
    log = console_log(lines.append, clock)

    for event in HEALTHY:
        log(event)

    assert [COMMIT_LINE] == lines


@pytest.mark.parametrize(("event", "text"), LINES)
def test_what_is_reported_of_an_event(event: Event, text: str, clock) -> None:
    lines: list[str] = []

    console_log(lines.append, clock)(event)

    assert [text] == [line[40:] for line in lines]


def test_all_of_an_epoch_is_reported_at_debug(clock) -> None:
    lines: list[str] = []
    log = console_log(lines.append, clock, level=logging.DEBUG)

    for event in HEALTHY:
        log(event)

    assert [
        "10:40:00  epoch 17                      planned: 20,000 records in 2 slices",
        "10:40:00  epoch 17                      slice 0 read: 10,000 records, 3.0 MB in 400 ms",
        "10:40:00  epoch 17                      slice 1 read: 10,000 records, 3.0 MB in 400 ms",
        "10:40:00  lake.bronze.flights           epoch 17 written: 20,000 rows in 4 files, 1.2 MB",
        "10:40:00  epoch 17                      prepared: 20,000 records for 1 table in 300 ms",
        COMMIT_LINE,
        "10:40:00  lake.quiet                    progress anchored at snapshot 82",
    ] == lines


def test_every_kind_of_event_has_words_of_its_own() -> None:
    modules = (events, publication_events)
    kinds = [kind for each in modules for kind in vars(each).values() if isinstance(kind, type)]

    for kind in kinds:
        if issubclass(kind, Event) and not kind.__subclasses__():
            assert kind.__name__ not in line_of(example(kind)).text


def example(kind: type[Event]) -> Event:
    known = {"str": "x", "int": 2, "float": 1.0, "bool": False}
    hints = {name: getattr(hint, "__name__", "") for name, hint in get_type_hints(kind).items()}
    return kind(**{name: known.get(hint, {}) for name, hint in hints.items()})


def test_times_are_those_of_the_zone(clock) -> None:
    lines: list[str] = []

    console_log(lines.append, clock, zone=timezone(timedelta(hours=2)))(COMMIT)

    assert "12:40:00" == lines[0][:8]


def test_colour_marks_the_level(clock) -> None:
    lines: list[str] = []

    console_log(lines.append, clock, colour="always")(TableParked(T, "P404", "gone"))

    assert [
        "\x1b[31m10:40:00  lake.bronze.flights           error: parked, P404: gone\x1b[0m"
    ] == lines


def test_foreign_text_cannot_break_a_line(clock) -> None:
    lines: list[str] = []

    console_log(lines.append, clock)(TableParked("a\nb", "P404", "x\ny\x1b[2J"))

    assert [True] == [line.isprintable() for line in lines]


def test_a_json_line_holds_every_field(clock) -> None:
    lines: list[str] = []
    clock.ms += 7

    json_log(lines.append, clock)(RecordsQuarantined(18, T, {"P301": 3}))

    assert [
        {
            "time": "2025-11-21T10:40:00.007Z",
            "level": "warning",
            "event": "RecordsQuarantined",
            "epoch": 18,
            "table": T,
            "codes": {"P301": 3},
        }
    ] == [json.loads(line) for line in lines]


def test_a_healthy_epoch_is_one_json_line_per_commit(clock) -> None:
    lines: list[str] = []
    log = json_log(lines.append, clock)

    for event in HEALTHY:
        log(event)

    assert ["TableCommitted"] == [json.loads(line)["event"] for line in lines]


def test_a_partition_that_stays_unreadable_is_reported_every_five_minutes(clock) -> None:
    lines: list[str] = []
    log = console_log(lines.append, clock)

    for _ in range(301):
        log(PartitionStalled("flights-0", "no leader"))
        clock.wait(1)
    log(PartitionStalled("flights-1", "no leader"))

    assert ["10:40:00", "10:45:00", "10:45:01"] == [line[:8] for line in lines]


def test_rejects_are_warned_of_once_for_each_cause_and_counted_from_then_on(clock) -> None:
    lines: list[str] = []
    log = console_log(lines.append, clock)
    published = publication_events.RowsPublished("orders", "t", 1, 2, 1, 0.1, 0)

    for publication, code in (("orders", "P840"), ("orders", "P840"), ("paid", "P840")):
        log(replace(published, publication=publication, rejected={code: 3}))
    log(replace(published, rejected={"P840": 1, "P343": 1}))

    assert [True, False, True, True] == ["warning: " in line for line in lines]
    assert all("rejected " in line for line in lines)


def test_a_partition_is_reported_again_in_time_when_the_wall_clock_is_set_back() -> None:
    lines: list[str] = []
    clock = ManualClock()
    log = console_log(lines.append, clock)

    log(PartitionStalled("flights-0", "no leader"))
    clock.set_wall_clock(START_MS - 3_600_000)
    log(PartitionStalled("flights-0", "no leader"))
    clock.advance(300)
    log(PartitionStalled("flights-0", "no leader"))

    assert 2 == len(lines)


def test_a_complaint_is_a_warning(clock) -> None:
    plain: list[str] = []
    data: list[str] = []

    console_log(plain.append, clock).complain("the status file cannot be written")
    json_log(data.append, clock).complain("the status file cannot be written")

    assert "warning: the status file cannot be written" == plain[0][40:]
    assert ("Message", "warning") == (json.loads(data[0])["event"], json.loads(data[0])["level"])


def test_lines_are_written_whole() -> None:
    stream = io.StringIO()

    write = written_to(stream)
    write("one")
    write("two")

    assert "one\ntwo\n" == stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_want_it() -> None:
    assert wants_colour(Terminal(), {})
    assert wants_colour(Terminal(), {"NO_COLOR": ""})
    assert not wants_colour(Terminal(), {"NO_COLOR": "1"})
    assert not wants_colour(Terminal(), {"TERM": "dumb"})
    assert not wants_colour(io.StringIO(), {})


def test_a_stall_is_an_error_line_and_its_end_is_reported(clock) -> None:
    stall = events.CommitsStalled(("lake.a",), 7, True, clock.ms)

    assert logging.ERROR == line_of(stall).level
    assert "lake.a, Kafka, epoch 7" in line_of(stall).text
    assert logging.INFO == line_of(events.CommitsResumed(4.0)).level
