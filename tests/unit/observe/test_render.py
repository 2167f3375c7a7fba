import io
from dataclasses import replace

from rich.console import Console

from penstock.observe.render import render_status
from penstock.observe.snapshot import (
    LastCommit,
    Parked,
    PendingEpoch,
    Reading,
    Snapshot,
    Stall,
    State,
    TableStatus,
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
    console.print(render_status(snapshot, NOW_MS, **options))
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
    assert last.endswith("…  336,776   4,000  41,000        1       2s ago")


def test_hostile_names_do_not_steer_the_terminal() -> None:
    snapshot = replace(SHOP, tables={"[red]a\n\x1b[2Jb": TableStatus()})

    assert "[red]a  [2Jb" in shown(snapshot)


def test_of_many_tables_those_in_trouble_come_first() -> None:
    tables = {f"lake.t{number:03}": TableStatus() for number in range(1_000)}
    tables["lake.t500"] = FLIGHTS
    tables["lake.t900"] = WEATHER

    lines = shown(replace(SHOP, tables=tables), tables_max=3).splitlines()

    assert ["lake.t900", "lake.t500", "lake.t000"] == [line.split()[0] for line in lines[4:7]]
    assert "and 997 more tables" == lines[7]


def test_a_stall_is_told() -> None:
    text = shown(SHOP, stall=Stall(("lake.bronze.flights",), None, NOW_MS - 90_000))

    assert "stalled: records read 1m 30s ago are not committed in lake.bronze.flights" in text


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
    )

    assert """\
shop  stopped 10s ago  epoch 17  generation 3
lag 0 records  pending 0 commits  all valid through 1m 05s ago

table      rows  rows/s  lag  pending  last commit
lake.a  336,776       -    0        0       2s ago

stopped: SIGTERM; rows, files and sizes are of that run
not all tables are level; the next run goes on where they stand""" == shown(snapshot)


def test_a_failure_is_told_with_its_code() -> None:
    snapshot = replace(
        SHOP, tables={}, reading=None, lag={}, state=State.FAILED, code="P201", reason="no broker"
    )

    assert """\
shop  failed 0s ago  epoch 19  generation 3  laptop:4711
lag 0 records  pending 0 commits

failed  P201  no broker""" == shown(snapshot)


def test_a_recovering_pipeline_says_what_is_left() -> None:
    snapshot = Snapshot("shop", State.STARTING, NOW_MS - 1_000, NOW_MS, recovering=2)

    assert """\
shop  starting for 1s
lag 0 records  pending 0 commits  2 of an earlier run to settle""" == shown(snapshot)
