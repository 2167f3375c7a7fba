"""The subjects of schema registries against their port: in memory, and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest
from tests.processes.schema_registry import Registered, serving
from tests.story.subjects import MemorySubjects

from penstock.connectors.registry import open_subjects
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.registry import RegisteredSchema, SchemaConflict, Subjects
from penstock.spec.secrets import ProcessSecrets

LONG, TEXT = RegisteredSchema("avro", '"long"'), RegisteredSchema("avro", '"string"')
SUBJECT = "crm/segments-value"


@pytest.fixture
def registered() -> Registered:
    return Registered()


@pytest.fixture
def over_http(registered: Registered) -> Iterator[Subjects]:
    with serving(registered) as url:
        yield open_subjects({"url": url}, ProcessSecrets({}))


@pytest.fixture(params=["memory", "http"])
def opened(
    request: pytest.FixtureRequest, registered: Registered, over_http: Subjects
) -> tuple[Subjects, Callable[[], None]]:
    """Return subjects, and what makes them strict."""
    if request.param == "http":
        return over_http, lambda: setattr(registered, "is_strict", True)
    found = MemorySubjects()
    return found, lambda: setattr(found, "is_strict", True)


def test_a_schema_is_found_after_it_was_registered(opened):
    subjects, _ = opened
    before = subjects.lookup(SUBJECT, LONG), subjects.newest(SUBJECT)
    number = subjects.register(SUBJECT, LONG)

    assert (None, None) == before
    assert number == subjects.lookup(SUBJECT, LONG) == subjects.register(SUBJECT, LONG)
    assert LONG == subjects.newest(SUBJECT) == subjects.by_id(number)
    assert [None, None] == [subjects.lookup(SUBJECT, TEXT), subjects.lookup("other", LONG)]
    assert subjects.by_id(99) is None


def test_a_schema_that_is_not_compatible_is_not_registered(opened):
    subjects, be_strict = opened
    fitting = subjects.conflict(SUBJECT, LONG)
    first, second = subjects.register(SUBJECT, LONG), subjects.register(SUBJECT, TEXT)
    be_strict()
    other = RegisteredSchema("avro", '"double"')

    assert (None, None) == (fitting, subjects.conflict("new", other))
    assert first != second
    assert SchemaConflict("READER_FIELD_MISSING") == subjects.register(SUBJECT, other)
    assert SchemaConflict("READER_FIELD_MISSING") == subjects.conflict(SUBJECT, other)
    assert TEXT == subjects.newest(SUBJECT)
    assert first == subjects.register(SUBJECT, LONG)


def test_a_schema_that_is_none_is_refused(over_http: Subjects) -> None:
    with pytest.raises(InvalidError) as caught:
        over_http.register(SUBJECT, RegisteredSchema("avro", "broken"))
    assert "P877" == caught.value.code
    assert "Invalid schema" in caught.value.message


@pytest.mark.parametrize("number", [-1, 1 << 31, True, "7", None])
def test_what_is_no_id_is_framed_in_no_message(number: object) -> None:
    class Odd(Registered):
        def register(self, *_: object, **__: object) -> int:
            return cast("int", number)

    with serving(Odd()) as url, pytest.raises(InvalidError, match="no id of a schema") as caught:
        open_subjects({"url": url}, ProcessSecrets({})).register(SUBJECT, LONG)
    assert "P673" == caught.value.code


def test_no_answer_is_no_schema_that_is_missing(
    registered: Registered, over_http: Subjects
) -> None:
    registered.failures = [503] * 4
    with pytest.raises(UnavailableError):
        over_http.lookup(SUBJECT, LONG)
    registered.failures = [404, 404, 404]
    with pytest.raises(InvalidError) as caught:
        over_http.lookup(SUBJECT, LONG)
    assert "P673" == caught.value.code


def test_an_id_is_kept(registered: Registered, over_http: Subjects) -> None:
    number = over_http.register(SUBJECT, LONG)
    asked = len(registered.asked)

    assert number == over_http.lookup(SUBJECT, LONG)
    assert asked == len(registered.asked)
