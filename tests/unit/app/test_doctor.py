"""Each check of `penstock doctor` says what is wrong, and what to do next."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.app.doctor import machine
from penstock.app.doctor.examination import examine, skew
from penstock.commit.catalog_probe import ProbeResult
from penstock.engines.spark import release
from penstock.ports.checks import CheckStatus

GOOD, ODD, BAD = CheckStatus.OK, CheckStatus.WARNING, CheckStatus.FAILED


def test_workers_of_another_python_are_reported() -> None:
    assert GOOD is machine.python({}).status
    assert ODD is machine.python({"PYSPARK_PYTHON": "/usr/bin/false"}).status


def test_the_libraries_of_this_environment_fit() -> None:
    assert GOOD is machine.libraries().status


def test_a_library_of_another_version_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["pyarrow>=99,<100", "no-such-library>=1", "pytest>=1; extra == 'demo'", "cyclopts"]
    monkeypatch.setattr(machine.metadata, "requires", lambda _: wanted)
    found = machine.libraries()

    assert (BAD, "P611", 2) == (found.status, found.code, found.exit_code)
    assert "no-such-library is not installed" in found.message
    assert "pyarrow" in found.message
    assert "pytest" not in found.message


def test_a_library_of_an_extra_counts_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = ["pyspark<4; extra == 'spark'", "no-such-library>=1; extra == 'page'"]
    monkeypatch.setattr(machine.metadata, "requires", lambda _: wanted)
    found = machine.libraries()

    assert "P611" == found.code
    assert "pyspark" in found.message
    assert "no-such-library" not in found.message


def test_a_machine_without_spark_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GOOD is machine.spark().status
    monkeypatch.setattr(release, "find_spec", lambda _: None)

    found = machine.spark()

    assert (BAD, "P297", 2) == (found.status, found.code, found.exit_code)


def test_a_machine_without_java_is_reported() -> None:
    found = machine.java({"PATH": "/nowhere"})

    assert (BAD, "P602", 2) == (found.status, found.code, found.exit_code)


def test_jars_that_the_spec_names_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "a.jar").touch()
    there = f"file://{tmp_path}/a.jar,s3://jars/b.jar"
    found = machine.jars({"spark.jars": there, "spark.driver.extraClassPath": "/nowhere/*"})

    assert GOOD is machine.jars({"spark.jars": there}).status
    assert (BAD, "P612") == (found.status, found.code)
    assert "/nowhere/ (spark.driver.extraClassPath)" in found.message


def test_a_port_that_is_taken_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environment = {"PENSTOCK_METRICS": f"127.0.0.1:{port}"}
        found = {each.subject: each for each in machine.ports(environment, {})}

    assert GOOD is found["loopback"].status
    assert ("P613", 75) == (found["metrics"].code, found["metrics"].exit_code)
    assert str(port) in found["metrics"].hint


@pytest.mark.parametrize("text", ["127.0.0.1:99999", "host", "127.0.0.1:http"])
def test_an_address_for_metrics_that_a_run_refuses_is_reported_as_it_does(text: str) -> None:
    *_, found = machine.ports({"PENSTOCK_METRICS": text}, {})

    assert ("metrics", BAD, "P592", 2) == (
        found.subject,
        found.status,
        found.code,
        found.exit_code,
    )


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("text", ["[::1]:0", "::1:0", "127.0.0.1:0", "0"])
def test_an_address_for_metrics_that_a_run_takes_is_good(text: str) -> None:
    *_, found = machine.ports({"PENSTOCK_METRICS": text}, {})

    assert ("metrics", GOOD) == (found.subject, found.status)


def test_a_port_of_spark_that_there_is_not_is_reported() -> None:
    *_, found = machine.ports({}, {"spark.driver.port": "99999"})

    assert (BAD, "P613") == (found.status, found.code)


def test_more_memory_than_there_is_is_reported() -> None:
    assert GOOD is machine.memory("inline", {}).status
    assert ODD is machine.memory("local[2]", {"spark.driver.memory": "900t"}).status


@pytest.mark.parametrize(
    ("ahead", "status"), [(0.0, GOOD), (-2.0, GOOD), (61.0, ODD), (-600.0, ODD), (None, None)]
)
def test_a_storage_whose_clock_is_off_is_reported(ahead: float | None, status: CheckStatus) -> None:
    found = skew("lake", ProbeResult(0.1, 0.1, ahead))

    assert (status or CheckStatus.UNKNOWN) is found.status


def test_without_a_spec_this_machine_alone_is_checked() -> None:
    found = examine(None, environment={"PATH": "/nowhere"})

    assert {"python", "java", "jars", "memory", "disk"} <= {each.check for each in found.checks}
    assert 2 == found.exit_code
