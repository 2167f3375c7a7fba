"""Which broker a command of `penstock dev` means."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from penstock.core.errors import InvalidError
from penstock.dev import choosing
from penstock.dev.broker import Running, everywhere
from penstock.dev.choosing import HOME, Chosen, chosen

ONE, OTHER = Running("127.0.0.1:1", 1), Running("127.0.0.1:2", 2)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Path, Path, Running]]:
    """Brokers that run: directory, folder of `dev up`, and where. None is in the default place."""
    brokers: list[tuple[Path, Path, Running]] = []
    monkeypatch.setattr(choosing, "everywhere", lambda: iter(brokers))
    monkeypatch.chdir(tmp_path)
    return brokers


def test_the_only_one_of_this_folder_is_meant(found: list[tuple[Path, Path, Running]]) -> None:
    found += [(Path("/a"), Path("/elsewhere"), ONE), (Path("/b"), Path.cwd(), OTHER)]

    assert Chosen(Path("/b"), OTHER) == chosen(None)


def test_one_of_another_folder_is_told_of_and_not_meant(
    found: list[tuple[Path, Path, Running]],
) -> None:
    found += [(Path("/a"), Path("/elsewhere"), ONE)]

    assert Chosen(HOME, None, [Path("/a")]) == chosen(None)


def test_of_several_of_this_folder_one_is_to_be_named(
    found: list[tuple[Path, Path, Running]],
) -> None:
    found += [(Path("/b"), Path.cwd(), OTHER), (Path("/a"), Path.cwd(), ONE)]

    with pytest.raises(InvalidError) as told:
        chosen(None)
    assert ("P192", True) == (told.value.code, "/a, /b" in told.value.message)
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
