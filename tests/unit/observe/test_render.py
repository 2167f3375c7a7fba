import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from penstock.core.maintenance import LastMaintenance, TableHealth
from penstock.observe.render import StatusText
from penstock.observe.snapshot import (
    LastCommit,
    Parked,
    PendingEpoch,
    Reading,
    Snapshot,
    Stall,
    State,
    TableStatus,
    Waiting,
    Widened,
)

NOW_MS = 1_000_000

FLIGHTS = TableStatus(
    rows=336_776,
    commits=17,
    files=204,
    size_bytes=5_123_456,
    last_commit=LastCommit(NOW_MS - 2_000, 17, "append", 20_000, 12, 300_000, "81", 0.02),
    pending=(PendingEpoch(18, 20_000, NOW_MS - 500),),
    valid_through_ms=NOW_MS - 65_000,
    lag_records=41_000,
    quarantined={"P301": 3_000, "P310": 1},
    recent=((NOW_MS - 20_000, 100_000), (NOW_MS - 2_000, 20_000)),
)
WEATHER = TableStatus(
    parked=Parked("P404", "the table is not there any more", NOW_MS - 300_000), lag_records=26_115
)
SHOP = Snapshot(
    "shop",
    State.CATCHING_UP,
    NOW_MS - 125_000,
    NOW_MS,
    generation=3,
    owner="laptop:4711",
    epoch=19,
    reading=Reading(19, 8_000, NOW_MS - 100),
    lag={"flights": 41_000, "weather": 26_115},
    tables={"lake.bronze.flights": FLIGHTS, "lake.bronze.weather": WEATHER},
)


def shown(snapshot: Snapshot, width: int = 80, **options) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(StatusText(snapshot, NOW_MS, **options))
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_at_eighty_columns() -> None:
    assert """\
shop  catching up for 2m 05s  epoch 19  generation 3  laptop:4711
lag 67,115 records  pending 1 commit  reading epoch 19, 8,000 records so far

table                   rows  rows/s     lag  pending  last commit
lake.bronze.weather        0       -  26,115   parked            -
lake.bronze.flights  336,776   4,000  41,000        1       2s ago

lake.bronze.weather parked 5m 00s ago  P404  the table is not there any more
lake.bronze.flights quarantined 3,000 by P301, 1 by P310""" == shown(SHOP)


def test_at_a_hundred_and_twenty_columns() -> None:
    assert """\
shop  catching up for 2m 05s  epoch 19  generation 3  laptop:4711
lag 67,115 records  pending 1 commit  reading epoch 19, 8,000 records so far

table                   rows  rows/s     lag  pending  last commit  valid through  files    size  quarantined
lake.bronze.weather        0       -  26,115   parked            -              -      0     0 B            0
lake.bronze.flights  336,776   4,000  41,000        1       2s ago     1m 05s ago    204  5.1 MB        3,001

lake.bronze.weather parked 5m 00s ago  P404  the table is not there any more
lake.bronze.flights quarantined 3,000 by P301, 1 by P310""" == shown(SHOP, width=120)


def test_a_long_name_is_cut_and_numbers_are_not() -> None:
    name = "lake.a_namespace_of_some_length.and_a_table_with_a_rather_long_name"
    snapshot = replace(SHOP, tables={name: replace(FLIGHTS, quarantined={})}, reading=None)

    last = shown(snapshot).splitlines()[-1]
    assert 80 >= len(last)
    assert (
        last == "lake.a_namespace…rather_long_name  336,776   4,000  41,000        1       2s ago"
    )


def test_a_pipeline_that_is_idle_reports_how_long_it_is_up_and_not_that_it_was_idle_so_long() -> (
    None
):
    assert "shop  idle, up for 2m 05s" in shown(replace(SHOP, state=State.IDLE))


def test_hostile_names_do_not_steer_the_terminal() -> None:
    snapshot = replace(SHOP, tables={"[red]a\n\x1b[2Jb": TableStatus()})

    assert "[red]a\\n\\x1b[2Jb" in shown(snapshot)


def test_of_many_tables_those_in_trouble_come_first() -> None:
    tables = {f"lake.t{number:03}": TableStatus() for number in range(1_000)}
    tables["lake.t500"] = FLIGHTS
    tables["lake.t900"] = WEATHER

    lines = shown(replace(SHOP, tables=tables), tables_max=3).splitlines()

    assert ["lake.t900", "lake.t500", "lake.t000"] == [line.split()[0] for line in lines[4:7]]
    assert "and 997 more tables" == lines[7]


def test_a_stall_is_reported() -> None:
    text = shown(SHOP, stall=Stall(("lake.bronze.flights",), None, NOW_MS - 90_000))

    assert "stalled: records read 1m 30s ago are not committed in lake.bronze.flights" in text


def test_where_no_run_has_left_its_status_no_time_is_made_up_for_its_end() -> None:
    never = Snapshot("shop", State.STOPPED, NOW_MS, 0, tables={"lake.a": TableStatus()})

    assert "shop  stopped  no run has written its status here" == shown(never).splitlines()[0]


def test_a_stopped_pipeline_has_no_rate() -> None:
    snapshot = Snapshot(
        "shop",
        State.STOPPED,
        NOW_MS - 90_000,
        NOW_MS - 10_000,
        generation=3,
        epoch=17,
        tables={"lake.a": replace(FLIGHTS, pending=(), quarantined={}, lag_records=0)},
        reason="SIGTERM",
        clean=False,
        lag={"flights": 0},
    )

    assert """\
shop  stopped 10s ago  epoch 17  generation 3
lag 0 records  pending 0 commits  all valid through 1m 05s ago

table      rows  rows/s  lag  pending  last commit
lake.a  336,776       -    0        0       2s ago

stopped: SIGTERM; rows, files, sizes and last commits are those of that run
the next run continues from where each table stands""" == shown(snapshot)


def test_a_failure_is_reported_with_its_code() -> None:
    snapshot = replace(
        SHOP, tables={}, reading=None, lag={}, state=State.FAILED, code="P201", reason="no broker"
    )

    assert """\
shop  failed 0s ago  epoch 19  generation 3  laptop:4711
lag ? records  pending 0 commits

failed  P201  no broker""" == shown(snapshot)


def test_a_recovering_pipeline_says_what_is_left() -> None:
    snapshot = Snapshot("shop", State.STARTING, NOW_MS - 1_000, NOW_MS, recovering=2)

    assert """\
shop  starting for 1s
lag ? records  pending 0 commits  2 of an earlier run to settle""" == shown(snapshot)


STARTING = Snapshot(
    "shop",
    State.STARTING,
    NOW_MS - 12_000,
    NOW_MS,
    waiting=Waiting("Java and Spark to start", NOW_MS - 11_000),
    tables={"lake.a": TableStatus()},
)


def test_a_start_says_what_it_waits_for_by_the_second_and_no_lag_before_it_is_known() -> None:
    assert """\
shop  starting for 12s
lag ? records  pending 0 commits
waiting 11s for Java and Spark to start

table   rows  rows/s  lag  pending  last commit
lake.a     0       -    ?        0            -""" == shown(STARTING)


def test_what_an_ended_run_waited_for_is_not_reported_any_more() -> None:
    assert "waiting" not in shown(replace(STARTING, state=State.STOPPED, reason="asked to stop"))


NAMES = {
    "short": "lake.a.b",
    "long": "lake.a_namespace_of_some_length.and_a_table_with_a_rather_long_name_of_its_own",
    "wide": "lake.東京の売上.二〇二六年の注文とその明細の一覧表と返品と交換",
    "combined": "lake.cafe\u0301." + "e\u0301" * 60,
    "hostile": "lake.\x1b[2J\x1b]0;owned\x07.\u202etxt\r\n[bold]x[/bold]",
}


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_no_name_breaks_the_columns(name: str, width: int) -> None:
    tables = {name: FLIGHTS, "lake.x": replace(FLIGHTS, pending=())}
    snapshot = replace(SHOP, tables=tables, waiting=Waiting(f"{name} to open", NOW_MS))

    text = shown(snapshot, width=width)
    lines = text.splitlines()
    assert width >= max(map(cell_len, lines))
    assert text.replace("\n", "").isprintable()
    head = next(at for at, line in enumerate(lines) if line.startswith("table "))
    rows = lines[head : head + 3]
    for column in ("rows", "lag", "pending"):
        ends = {edges(row)[edges_of(rows[0], column)] for row in rows}
        assert 1 == len(ends), rows
    assert all("336,776" in row and "41,000" in row for row in rows[1:])


def edges(row: str) -> list[int]:
    """Return where the words after a row's name end, in cells, from the right."""
    parts = re.split(r"\s{2,}(?=\S)", row.rstrip())
    ends, at = [], 0
    for part in parts:
        at = row.index(part, at) + len(part)
        ends.append(cell_len(row[:at]))
    return ends


def edges_of(header: str, column: str) -> int:
    return re.split(r"\s{2,}", header.strip()).index(column)


def test_names_that_differ_in_their_end_alone_stay_distinct() -> None:
    name = "lake.a_namespace_of_some_length.and_a_table_with_a_rather_long_name"
    tables = {f"{name}_{number}": TableStatus() for number in (1, 2)}

    rows = shown(replace(SHOP, tables=tables)).splitlines()[-2:]
    assert ["_1", "_2"] == [row.split()[0][-2:] for row in rows]


def test_what_is_reported_of_a_long_name_is_reported_whole() -> None:
    name = "lake.a_namespace_of_some_length.and_a_table_with_a_rather_long_name"
    tables = {name: FLIGHTS}

    text = " ".join(shown(replace(SHOP, tables=tables)).split())
    assert f"{name} quarantined 3,000 by P301, 1 by P310" in text


def test_a_table_that_has_no_lag_shows_none_once_others_are_known() -> None:
    quarantine, parked = TableStatus(), replace(WEATHER, lag_records=None)
    tables = {"lake.q": quarantine, "lake.w": parked}

    lags = {
        row.split()[0]: row.split()[3]
        for row in shown(replace(SHOP, tables=tables)).splitlines()[4:6]
    }
    assert {"lake.q": "-", "lake.w": "?"} == lags


@pytest.mark.parametrize(
    ("lag", "reported"),
    [(26_115, "lag 26,115 records of parked tables"), (None, "lag ? records of")],
)
def test_no_lag_of_0_is_above_a_parked_table_whose_records_wait(lag, reported) -> None:
    level = replace(FLIGHTS, pending=(), lag_records=0)
    waits = replace(WEATHER, lag_records=lag)
    ended = replace(
        SHOP,
        state=State.STOPPED,
        reading=None,
        lag={"flights": 0, "weather": 0},
        tables={"lake.bronze.flights": level, "lake.bronze.weather": waits},
    )

    assert reported in shown(ended)
    assert "lag 0 records" not in shown(ended)
    cured = replace(ended, tables={"lake.bronze.flights": level})
    assert "lag 0 records" in shown(cured)


def test_until_when_a_table_is_paused_is_shown() -> None:
    paused = replace(FLIGHTS, paused_until_ms=NOW_MS + 61_000)
    line = "lake.bronze.flights paused until 00:17:41 UTC, for 1m 01s more: nothing is committed"

    assert line in shown(replace(SHOP, tables={"lake.bronze.flights": paused}), width=100)
    over = replace(FLIGHTS, paused_until_ms=NOW_MS)
    assert "paused" not in shown(replace(SHOP, tables={"lake.bronze.flights": over}))


def test_what_changes_did_is_counted_since_the_start_of_the_run() -> None:
    table = replace(FLIGHTS, changes={"inserted": 4_000, "deleted": 2, "healed": 0})
    snapshot = replace(SHOP, tables={"lake.a": table})

    assert "\nlake.a since the start: 4,000 inserted, 2 deleted\n" in shown(snapshot)
    stopped = replace(snapshot, state=State.STOPPED)
    assert "\nlake.a in that run: 4,000 inserted, 2 deleted\n" in shown(stopped)
    again = replace(snapshot, tables={"lake.a": replace(table, rewritten_bytes=2_500_000)})
    assert "4,000 inserted, 2 deleted; files of 2.5 MB written again\n" in shown(again)


def test_a_table_that_needs_maintenance_says_so_and_others_say_nothing() -> None:
    poor = TableHealth(482, 9, 12_000_000, 900, 100, 3_200_000, 4)
    well = replace(poor, files=30, deleted=1)
    tables = {
        "lake.a": TableStatus(health=poor),
        "lake.b": TableStatus(health=well),
        "lake.c": TableStatus(),
    }

    lines = shown(replace(SHOP, tables=tables), width=120).splitlines()

    words = "482 files where 9 would do, in 4 groups; 10% of its rows are deleted; metadata 3.2 MB"
    assert [f"lake.a has {words}"] == [each for each in lines if " has " in each]


def test_tables_that_need_maintenance_are_said_the_worst_first_with_the_last_time() -> None:
    last = LastMaintenance(NOW_MS - 3 * 3_600_000, "spark")
    poor = TableHealth(482, 9, 12_000_000, 900, 0, 3_200_000, 4, maintained=last)
    poorer = replace(poor, files=600, commit_bytes=6_100_000)
    tables = {
        "lake.a": TableStatus(health=poor),
        "lake.b": TableStatus(health=poorer),
        "lake.c": TableStatus(table_files=10_001),
        "lake.d": TableStatus(table_files=10_000),
    }

    lines = shown(replace(SHOP, tables=tables), width=160).splitlines()

    said = "files where 9 would do, in 4 groups; metadata 3.2 MB"
    ago = "last maintained 3h 00m ago by spark"
    assert [
        f"lake.b has 600 {said}; each commit writes 6.1 MB of them again; {ago}",
        f"lake.a has 482 {said}; {ago}",
        "lake.c has 10,001 files, too many to look at here",
    ] == [each for each in lines if " has " in each]


def test_epochs_that_are_wider_than_usual_are_said_while_a_run_goes_on() -> None:
    wide = replace(SHOP, widened=Widened("lake.a", 23_104, 480.0, 1.0))
    said = "epochs are 8m 00s apart, usually 1.0 s: lake.a had 23,104 files too many"

    assert said in shown(wide, width=120)
    assert said not in shown(replace(wide, state=State.STOPPED), width=120)
