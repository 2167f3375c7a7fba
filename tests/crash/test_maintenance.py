"""`penstock maintain` struck before and after each durable act, and beside a run: row by row with Kafka.

`make test` plays a few blows on two kinds of tables, `make crash` all on all.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from functools import partial

import psutil
import pytest
from tests.crash.field import Field
from tests.crash.matrix import NOT_OF_DELTA, Blow, Cell, Fields, catch_up
from tests.processes.process import KILLED, Driver, Finished
from tests.processes.sigstop import let_locks_go, sleeps
from tests.servers.warm import WarmProcess
from tests.story.oracle import summary

from penstock.core.crash_points import CrashPoint

POINTS = (
    CrashPoint.FILE_OPENED,
    CrashPoint.FILE_WRITTEN,
    CrashPoint.FILE_CLOSED,
    CrashPoint.FILES_REWRITTEN,
    CrashPoint.COMMIT_BEFORE,
    CrashPoint.MANIFEST_WRITTEN,
    CrashPoint.COMMIT_AFTER,
)
STOPPED = (CrashPoint.COMMIT_BEFORE, CrashPoint.FILES_REWRITTEN)
FEW = (CrashPoint.FILE_CLOSED, CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER)
ALL = [(connector, keyed) for connector in ("iceberg", "delta") for keyed in (False, True)]


def maintaining(ground: Field, fault: str = "") -> Driver:
    return Driver(
        ground.spec,
        *ground.tables.values(),
        *(f"lake.{ground.refused}", "--yes", "field"),
        environment={**ground.environment, "PENSTOCK_FAULTS": fault},
        start=partial(WarmProcess, directory=ground.directory),
        verb=("maintain",),
    )


def maintained(ground: Field, fault: str = "") -> Finished:
    with maintaining(ground, fault) as driver:
        return driver.end()


def require_exact(ground: Field) -> None:
    differences = ground.differences()
    assert [] == differences, summary(differences)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("connector", "keyed"), [("iceberg", False), ("delta", True)])
def test_maintenance_that_is_struck_loses_and_doubles_nothing(
    fields: Fields, connector: str, keyed: bool
) -> None:
    play(fields, connector, keyed, FEW, STOPPED[:1])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("connector", "keyed"), ALL)
def test_maintenance_that_is_struck_anywhere_loses_and_doubles_nothing(
    fields: Fields, connector: str, keyed: bool
) -> None:
    points = [each for each in POINTS if connector == "iceberg" or each not in NOT_OF_DELTA]
    play(fields, connector, keyed, points, STOPPED)


def play(
    fields: Fields,
    connector: str,
    keyed: bool,
    killed: Sequence[CrashPoint],
    stopped: Sequence[CrashPoint],
) -> None:
    """Kill maintenance at points, the last behind its commit; stop it at others while a run lands."""
    ground = fields.make(Cell(CrashPoint.COMMIT_BEFORE, Blow.KILL, connector, 1, keyed))
    for _ in range(2):
        ground.send()
        catch_up(ground)
    for point in killed:
        ended = maintained(ground, f"{point}:1:kill")
        assert KILLED == ended.code, (point, ended.out + ended.err[-3000:])
        require_exact(ground)
    done = {each["table"] for each in maintained(ground).json["done"] or ()}
    assert done.isdisjoint(ground.tables.values()), "what was killed after its commit had landed"

    for point in stopped:
        ground.send()
        catch_up(ground)
        with maintaining(ground, f"{point}:1:stop") as zombie:
            process = psutil.Process(zombie.pid)
            zombie.wait_until(lambda p=process: sleeps(p), f"stopped at {point}")
            assert let_locks_go(process, ground.databases())
            ground.send()
            catch_up(ground)
            os.kill(zombie.pid, signal.SIGCONT)
            ended = zombie.end()
            assert 0 == ended.code, ended.out + ended.err[-3000:]
        require_exact(ground)

    catch_up(ground)
    compared = ground.compared()
    assert () == compared.wrong
    assert compared.rows
