"""Ports for servers that are about to start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.dev import ports


def reported(place: Path, text: str) -> Path:
    path = place / "range"
    path.write_text(text)
    return path


def test_a_port_is_free_and_none_that_the_system_gives_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ports, "EPHEMERAL_OF_LINUX", reported(tmp_path, "20000\t65535\n"))
    found = ports.free_port()
    assert ports.LOWEST <= found < 20_000
    with socket.socket() as server:
        server.bind((ports.HOST, found))
        server.listen()
        assert not ports.is_free(found)


def test_a_taken_port_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(ports, "is_free", lambda port: asked.append(port) or len(asked) > 2)
    assert ports.free_port() == asked[2]
    assert 3 == len(asked)


def test_a_port_that_another_server_is_to_have_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = iter([0, 1, 2])
    monkeypatch.setattr(ports.secrets, "randbelow", lambda _: next(drawn))
    monkeypatch.setattr(ports, "is_free", lambda _: True)
    assert ports.LOWEST + 2 == ports.free_port(ports.LOWEST, ports.LOWEST + 1)


def test_where_the_system_gives_away_all_it_is_asked_for_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ports, "EPHEMERAL_OF_LINUX", reported(tmp_path, "1024\t65535\n"))
    assert 1024 == ports.ephemeral_from()
    assert ports.is_free(ports.free_port())
    monkeypatch.setattr(ports, "EPHEMERAL_OF_LINUX", tmp_path / "none")
    assert ports.EPHEMERAL_FROM == ports.ephemeral_from()
