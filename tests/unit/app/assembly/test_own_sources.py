"""Sources of one's own are found by name, and what is none is told."""

from __future__ import annotations

import json

import pytest

from penstock.app.assembly.own_sources import kept_own_source, open_own_source
from penstock.core.errors import InvalidError, PenstockError, UnavailableError

MODULE = """
import penstock

@penstock.source(replay="range")
def numbers(at, until, *, token):
    yield penstock.Batch([{"n": 1, "token": token}], {"n": 1})

class Device(penstock.OwnSource):
    def __init__(self, *, port=1):
        if port < 0:
            raise OSError("no such port")

    def read(self, part, at, until):
        return []

class Other(Device):
    replay = "sometimes"

class Nothing:
    pass

number = 7
"""


@pytest.fixture
def names(tmp_path, monkeypatch) -> str:
    """Write a module into the working directory; its name is that of no other test's."""
    name = f"feeds_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("import nothing_that_is_there")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    return name


def test_a_function_and_a_class_are_opened_with_their_options(names, monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    settings = {
        "own": f"{names}:numbers",
        "name": "n",
        "publication": "m",
        "options": {"token": "${env:TOKEN}"},
    }
    found = kept_own_source(json.dumps(settings))
    (batch,) = found.source.read({}, None, None)

    assert found.source.replay == "range"
    assert batch.rows == [{"n": 1, "token": "secret"}]
    assert found is kept_own_source(json.dumps(settings))
    assert open_own_source(f"{names}:Device", {"port": 2}).columns() is None


@pytest.mark.parametrize(
    ("name", "options", "code", "words"),
    [
        ("{}:nothing", {}, "P850", "has no nothing"),
        ("{}_broken:Device", {}, "P850", "nothing_that_is_there"),
        ("{}_missing:Device", {}, "P850", "ModuleNotFoundError"),
        ("unheard", {}, "P850", "nothing installed has that name"),
        ("{}:number", {}, "P851", "cannot be called"),
        ("{}:numbers", {}, "P851", "token"),
        ("{}:numbers", {"token": "t", "port": 1}, "P851", "port"),
        ("{}:Device", {"station": 1}, "P851", "station"),
        ("{}:Nothing", {}, "P851", "it lacks replay, boundaries, read"),
        ("{}:Other", {}, "P851", "'sometimes'"),
        ("{}:Device", {"port": -1}, "P854", "OSError: no such port"),
    ],
)
def test_what_is_no_source_is_refused(names, name, options, code, words):
    with pytest.raises(PenstockError) as raised:
        open_own_source(name.format(names), options)

    assert code == raised.value.code
    assert words in raised.value.message
    assert isinstance(raised.value, UnavailableError if code == "P854" else InvalidError)
