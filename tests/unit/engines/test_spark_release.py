"""Spark is an extra: without it, or with another release, a run says so before it starts."""

import pytest

from penstock.core.errors import InvalidError
from penstock.engines.spark import release
from penstock.engines.spark.engine import require_classic
from penstock.engines.spark.release import require_installed, require_release


def test_a_machine_without_spark_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "find_spec", lambda _: None)
    with pytest.raises(InvalidError) as raised:
        require_installed()

    assert ("P297", 2) == (raised.value.code, raised.value.exit_code)
    assert 'pip install "penstock[spark]"' in raised.value.hint
    assert "master: inline" in raised.value.hint


@pytest.mark.parametrize("version", ["4.1.4", "4.1.4+vendor.7", "4.1.0-preview1"])
def test_a_release_that_was_tried_is_taken(version: str) -> None:
    require_release(version)


@pytest.mark.parametrize("version", ["3.4.1", "4.2.0", "4.10.0", "5.0", ""])
def test_a_release_that_was_not_tried_is_refused(version: str) -> None:
    with pytest.raises(InvalidError) as raised:
        require_release(version)

    assert "P298" == raised.value.code
    assert f"Spark {version}" in raised.value.message


def test_a_session_of_another_release_is_refused() -> None:
    from pyspark.sql import SparkSession

    session = object.__new__(type("Lent", (SparkSession,), {"version": "3.4.1"}))
    with pytest.raises(InvalidError) as raised:
        require_classic(session)

    assert "P298" == raised.value.code
