"""The log of a run is closed with it, and one that a secret has ended two changes later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.app.assembly import assembly, kept_readers


class Opening:
    """A connector whose logs and readers say when they are closed."""

    def __init__(self) -> None:
        self.closed = 0

    def _open(self, *_: Any) -> Any:
        def close() -> None:
            self.closed += 1

        return SimpleNamespace(cluster_id=lambda: "here", close=close)

    open_log = open_reader = _open


def test_the_log_of_a_run_is_closed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Opening()
    monkeypatch.setattr(assembly, "connector_of", lambda *_: place)
    pipeline: Any = SimpleNamespace(kafka=SimpleNamespace(revealed=dict))
    log = assembly.open_log(pipeline)
    log.cluster_id()
    log.close()

    assert 1 == place.closed


def test_a_reader_is_closed_when_its_secret_has_changed_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Opening()
    monkeypatch.setattr(kept_readers, "connector_of", lambda *_: place)
    kept = kept_readers.kept_reader('{"connector": "any", "password": "${env:WORD_OF_MINE}"}')
    for word in ("one", "two", "three"):
        monkeypatch.setenv("WORD_OF_MINE", word)
        kept()

    assert 1 == place.closed
