"""What is opened with secrets is opened again when these change, and only then."""

from typing import Any

import pytest

from penstock.core.errors import InvalidError
from penstock.files.reopening import Reopening
from penstock.spec.secrets import ProcessSecrets


class Place:
    """Opens numbers, one after the other; says which were closed."""

    def __init__(self) -> None:
        self.opened, self.closed = 0, list[int]()

    def open(self) -> int:
        self.opened += 1
        return self.opened


def kept(place: Place, settings: dict[str, Any], environment: dict[str, str]) -> Reopening[int]:
    return Reopening(settings, ProcessSecrets(environment), place.open, place.closed.append)


@pytest.mark.parametrize(
    "settings",
    [
        {"password": "${env:WORD}"},
        {"security": {"password": "x${env:WORD}y"}},
        {"topics": ["a", "${env:WORD}"], "timeout": 3},
    ],
)
def test_it_is_opened_again_when_a_reference_gives_something_else(settings: dict[str, Any]) -> None:
    place, environment = Place(), {"WORD": "one"}
    opened = kept(place, settings, environment)

    assert [1, 1] == [opened(), opened()]
    environment["WORD"] = "two"
    assert [2, 2] == [opened(), opened()]
    environment["WORD"] = "one"
    assert 3 == opened()


def test_what_was_open_stays_open_until_the_change_after() -> None:
    place, environment = Place(), {"WORD": "one"}
    opened = kept(place, {"password": "${env:WORD}"}, environment)
    opened()
    environment["WORD"] = "two"
    opened()
    assert [] == place.closed
    environment["WORD"] = "three"
    opened()
    assert [1] == place.closed

    opened.close()
    assert [1, 2, 3] == place.closed


def test_a_secret_that_is_away_for_a_moment_changes_nothing() -> None:
    """A file that is just being rewritten."""
    place, environment = Place(), {"WORD": "one"}
    opened = kept(place, {"password": "${env:WORD}"}, environment)
    opened()
    del environment["WORD"]
    assert 1 == opened()
    environment["WORD"] = "one"
    assert 1 == opened()


def test_a_secret_that_is_away_at_first_is_reported() -> None:
    with pytest.raises(InvalidError, match="WORD"):
        kept(Place(), {"password": "${env:WORD}"}, {})()


def test_what_cannot_be_opened_with_the_new_secret_is_tried_again() -> None:
    place, environment, failures = Place(), {"WORD": "one"}, [False, True, False]

    def opening() -> int:
        if failures.pop(0):
            raise InvalidError("refused", code="P202", hint="")
        return place.open()

    opened = Reopening({"password": "${env:WORD}"}, ProcessSecrets(environment), opening)
    opened()
    environment["WORD"] = "two"
    with pytest.raises(InvalidError):
        opened()
    assert 2 == opened()


def test_no_secret_is_in_what_it_keeps() -> None:
    opened = kept(Place(), {"password": "${env:WORD}"}, {"WORD": "very-secret"})
    opened()
    held = {name: value for name, value in vars(opened).items() if name != "_secrets"}

    assert "very-secret" not in repr(held)
