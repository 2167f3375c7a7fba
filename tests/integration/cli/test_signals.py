"""SIGINT and SIGTERM: the first finishes what is open and levels all tables, the second leaves."""

from __future__ import annotations

import signal

import pytest
from tests.integration.cli.shop import Shop


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_cleanly_with_all_tables_level(
    shop: Shop, number: signal.Signals
) -> None:
    with shop.producing() as sent, shop.driver() as driver:
        driver.wait_for("TableCommitted", 6)
        driver.send(number)
        ended = driver.end()
    assert (0, "asked to stop") == (ended.code, ended.json["reason"])
    assert 0 == shop.pending()
    lake, delta = shop.ids()
    assert lake == delta
    assert 0 < len(lake) <= sent()
    assert 0 == shop.run().code
    assert (list(range(sent())), list(range(sent()))) == shop.ids()


def test_a_run_reports_its_position_and_goes_on(shop: Shop) -> None:
    shop.send(0, 10)
    with shop.driver() as driver:
        driver.wait_for("TableCommitted", 2)
        driver.send(signal.SIGQUIT)
        driver.wait_until(lambda: any(" in _loop" in line for line in driver.lines), "its stacks")
        shop.send(10, 10)
        driver.wait_for("TableCommitted", 4)
        driver.send(signal.SIGTERM)
        assert 0 == driver.end().code
    assert (list(range(20)), list(range(20))) == shop.ids()


def test_a_second_signal_leaves_at_once_and_loses_nothing(shop: Shop) -> None:
    """Both are sent to a process that is held, so that none can be obeyed before the other."""
    with shop.producing() as sent, shop.driver() as driver:
        driver.wait_for("TableCommitted", 6)
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            driver.send(number)
        ended = driver.end()
    assert 130 == ended.code
    assert "nothing" not in ended.out
    assert "The next run finishes what is prepared" in ended.err
    assert 0 == shop.run().code
    assert (list(range(sent())), list(range(sent()))) == shop.ids()
    shop.prove()


@pytest.mark.spark
def test_ctrl_c_in_a_terminal_ends_a_run_on_spark_cleanly(shop: Shop) -> None:
    """A terminal sends SIGINT to the whole process group: Java and its workers must not die of it."""
    shop.spec["spark"]["master"] = "local[2]"
    with shop.producing() as sent, shop.driver() as driver:
        driver.wait_for("TableCommitted", 4)
        assert driver.java() is not None
        driver.interrupt_group()
        ended = driver.end()
        assert (0, "asked to stop") == (ended.code, ended.json["reason"])
        driver.wait_until_nothing_is_left()
    assert 0 == shop.pending()
    lake, delta = shop.ids()
    assert lake == delta == list(range(len(lake)))
    assert 0 < len(lake) <= sent()


@pytest.mark.spark
def test_ctrl_c_twice_on_spark_leaves_no_process_running(shop: Shop) -> None:
    shop.spec["spark"]["master"] = "local[2]"
    with shop.producing() as sent, shop.driver() as driver:
        driver.wait_for("TableCommitted", 2)
        driver.send(signal.SIGSTOP)
        driver.interrupt_group()
        driver.send(signal.SIGTERM)
        driver.send(signal.SIGCONT)
        assert 130 == driver.end().code
        driver.wait_until_nothing_is_left()
    shop.spec["spark"]["master"] = "inline"
    assert 0 == shop.run().code
    assert (list(range(sent())), list(range(sent()))) == shop.ids()
