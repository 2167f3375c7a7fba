"""Which broker a command of `penstock dev` means."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from penstock.cli import dev as commands
from penstock.core.errors import InvalidError
from penstock.dev import broker
from penstock.dev.broker import HOME, Chosen, Running, chosen, everywhere

ONE, OTHER = Running("127.0.0.1:1", 1), Running("127.0.0.1:2", 2)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Path, Path, Running]]:
    """Brokers that run: directory, folder of `dev up`, and where. None is in the default place."""
    brokers: list[tuple[Path, Path, Running]] = []
    monkeypatch.setattr(broker, "everywhere", lambda: iter(brokers))
    monkeypatch.chdir(tmp_path)
    return brokers


def test_the_only_one_of_this_folder_is_meant(found: list[tuple[Path, Path, Running]]) -> None:
    found += [(Path("/a"), Path("/elsewhere"), ONE), (Path("/b"), Path.cwd(), OTHER)]

    assert Chosen(Path("/b"), OTHER) == chosen(None)


def test_one_of_another_folder_is_listed_and_not_meant(
    found: list[tuple[Path, Path, Running]],
) -> None:
    found += [(Path("/a"), Path("/elsewhere"), ONE)]

    assert Chosen(HOME, None, [Path("/a")]) == chosen(None)


def test_of_several_of_this_folder_one_is_to_be_named(
    found: list[tuple[Path, Path, Running]],
) -> None:
    found += [(Path("/b"), Path.cwd(), OTHER), (Path("/a"), Path.cwd(), ONE)]

    with pytest.raises(InvalidError) as raised:
        chosen(None)
    assert ("P192", True) == (raised.value.code, "/a, /b" in raised.value.message)
    assert Chosen(Path("/a"), None) == chosen(Path("/a"))


def test_a_broker_whose_state_cannot_be_read_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another user's, whose folder is closed to us."""
    (tmp_path / "broker.json").mkdir()
    theirs = SimpleNamespace(
        pid=1, info={"cmdline": ["java", "kafka.Kafka", str(tmp_path / "server.properties")]}
    )
    monkeypatch.setattr(psutil, "process_iter", lambda _: iter([theirs]))

    assert [] == [*everywhere()]


def test_a_number_that_is_no_port_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="99999 is not a port") as raised:
        broker.up(tmp_path, 99_999)
    assert ("P656", True) == (raised.value.code, "--port 0" in raised.value.hint)


def test_a_port_that_our_broker_of_another_folder_has_is_reported_with_that_folder(
    found: list[tuple[Path, Path, Running]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "is_free", lambda _: False)
    found += [(Path("/a/.penstock/dev"), Path("/a"), Running("127.0.0.1:9092", 1))]

    ours, others = broker._taken(9092), broker._taken(9093)

    assert "port 9092 is in use by Penstock's broker of /a" == ours.message
    assert "export BROKERS=127.0.0.1:9092" in ours.hint
    assert "penstock dev down --directory /a/.penstock/dev" in ours.hint
    assert "by another program" in others.message


@pytest.mark.parametrize(("port", "said"), [(9092, False), (9192, True)])
def test_a_broker_on_another_port_says_how_it_is_used(
    port: int, said: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(broker, "up", lambda *_, **__: Running(f"127.0.0.1:{port}", 1))

    commands.up(port=port)

    assert said == (f"use it: export BROKERS=127.0.0.1:{port}" in capsys.readouterr().out)
