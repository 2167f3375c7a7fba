import sys
import threading
from types import ModuleType

import pytest

from penstock.core.errors import BugError, DecisionNeededError, UnavailableError
from penstock.engines.inline import InlineEngine
from penstock.ports.runtime import JobResult


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of job bodies, importable by its name."""
    module = ModuleType("inline_bodies")
    monkeypatch.setitem(sys.modules, "inline_bodies", module)
    return module


@pytest.mark.parametrize("capacity", [1, 3])
def test_results_come_in_the_order_of_their_jobs(bodies: ModuleType, capacity: int) -> None:
    bodies.work = str.upper
    engine = InlineEngine("inline_bodies:work", capacity)

    assert ["A", "B", "C", "D"] == list(engine.run(["a", "b", "c", "d"]))
    assert [] == list(engine.run([]))
    assert capacity == engine.capacity()


def test_jobs_of_this_process_run_once(bodies: ModuleType) -> None:
    bodies.work = str.upper

    expected = [JobResult("A", ran_once=True), JobResult("B", ran_once=True)]
    assert expected == InlineEngine("inline_bodies:work").run_once(["a", "b"])


def test_jobs_overlap_when_the_capacity_allows(bodies: ModuleType) -> None:
    meeting = threading.Barrier(2, timeout=10)
    bodies.work = lambda job: f"{job}{meeting.wait() >= 0}"

    assert ["aTrue", "bTrue"] == list(InlineEngine("inline_bodies:work", 2).run(["a", "b"]))


@pytest.mark.parametrize("capacity", [1, 2])
def test_the_error_of_a_job_is_the_error_of_the_run(bodies: ModuleType, capacity: int) -> None:
    def work(job: str) -> str:
        if job == "b":
            raise DecisionNeededError("Look.", code="P299")
        return job

    bodies.work = work
    with pytest.raises(DecisionNeededError, match=r"Look\."):
        InlineEngine("inline_bodies:work", capacity).run(["a", "b", "c"])


def test_after_a_cancellation_no_further_job_begins(bodies: ModuleType) -> None:
    begun: list[str] = []

    def work(job: str) -> str:
        begun.append(job)
        engine.cancel()
        return job

    bodies.work = work
    engine = InlineEngine("inline_bodies:work")
    with pytest.raises(UnavailableError) as raised:
        engine.run(["a", "b"])

    assert ("P605", ["a"]) == (raised.value.code, begun)
    bodies.work = str.upper
    engine.cancel()
    assert ["A"] == list(InlineEngine("inline_bodies:work").run(["a"]))


@pytest.mark.parametrize("name", ["inline_bodies:missing", "no_such_module:work", "", ":", "json"])
def test_work_that_cannot_be_imported_is_our_bug(bodies: ModuleType, name: str) -> None:
    with pytest.raises(BugError) as raised:
        InlineEngine(name)

    assert "P711" == raised.value.code
