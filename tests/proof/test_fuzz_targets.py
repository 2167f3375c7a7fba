"""Every target of `make fuzz` holds for its seeds and some thousand damages, and sees a planted fault."""

import pytest
from tests.proof import fuzz

from penstock.core import plain_data, serialization

DAMAGES = {"json": 300, "avro": 500}


@pytest.fixture(scope="module")
def targets():
    return fuzz.targets()


@pytest.mark.parametrize("name", fuzz.SEEDS)
def test_whatever_others_wrote_is_read_right_or_refused(targets, name):
    for data in fuzz.damages(name, DAMAGES.get(name, 1000)):
        targets[name](data)


@pytest.mark.parametrize("name", ["ledger", "pending"])
def test_the_seeds_are_accepted_so_that_damages_begin_at_what_is_right(name):
    read = {
        "ledger": serialization.ledger_from_json,
        "pending": serialization.committable_from_json,
    }[name]
    for data in fuzz.SEEDS[name]:
        read(data.decode())


def broken(target, name):
    """Count the damages by which a target says that a promise is broken."""
    count = 0
    for data in fuzz.damages(name, 1000):
        try:
            target(data)
        except (AssertionError, TypeError, ValueError):
            count += 1
    return count


def test_a_reader_that_accepts_what_it_should_not_is_found(monkeypatch):
    """Texts of any kind, say: what was damaged cannot be written again, or reads otherwise."""
    monkeypatch.setattr(serialization, "as_text", str)

    assert broken(fuzz.targets()["pending"], "pending")


def test_a_reader_that_crashes_is_found(monkeypatch):
    monkeypatch.setattr(plain_data, "_UNREADABLE", (KeyError, AttributeError, AssertionError))

    assert broken(fuzz.targets()["ledger"], "ledger")
