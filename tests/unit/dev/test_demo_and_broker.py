"""What may go wrong around the broker of this machine and the demo, without starting either."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import psutil
import pytest

from penstock.app.demo import data
from penstock.app.demo.pipeline import PipelineProcess
from penstock.core.errors import InvalidError, UnavailableError
from penstock.dev import broker, jars


class Undying:
    """A process that takes no notice of signals."""

    pid = 4711

    def terminate(self) -> None:
        """Do nothing."""

    kill = terminate

    def wait(self, timeout: float) -> int:
        raise psutil.TimeoutExpired(timeout)


def test_a_broker_that_does_not_end_is_reported_with_its_process() -> None:
    with pytest.raises(UnavailableError) as raised:
        broker._end(Undying())

    assert ("P658", "kill -9 4711") == (raised.value.code, raised.value.hint)


def test_the_demo_says_which_package_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "PACKAGE", "no_such_package")
    with pytest.raises(InvalidError, match="no_such_package") as raised:
        data.flights()

    assert "P640" == raised.value.code


def test_a_demo_whose_pipeline_says_nothing_ends_with_its_last_words() -> None:
    words = (sys.executable, "-c", "import time; time.sleep(60)")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        silent = PipelineProcess(process, tail=["it was well"])
        with pytest.raises(UnavailableError, match=r"said nothing for 0 s.*it was well") as raised:
            next(silent.lines(0.05))
        silent.kill()

    assert "P641" == raised.value.code


def test_without_pyspark_there_is_no_resolver_for_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InvalidError) as raised:
        jars._ivy()

    assert "P655" == raised.value.code
