"""Every failure mode has a test that bears its id, and no test bears another id."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/design/failure-modes.md"
ROW = re.compile(r"^\| ([A-Z]\d+) \|.*\| `(test_\w+)` \|$", re.MULTILINE)
KIP_618 = ROOT / "docs/design/kip-618.md"
WITHOUT_TEST = frozenset({"16"})
"""Of failures of publications: the numbers whose tests are still to be written."""
TEST = re.compile(r"def test_([kcfsrdwx]\d+)_")


def sources() -> list[str]:
    places = [ROOT / "tests", ROOT / "src/penstock/testing"]
    return [path.read_text() for place in places for path in place.rglob("*.py")]


def borne() -> set[str]:
    return {found.upper() for text in sources() for found in TEST.findall(text)}


def test_every_failure_mode_has_a_test_and_every_id_its_failure_mode():
    assert {mode for mode, _ in ROW.findall(PAGE.read_text())} == borne()


def test_the_test_that_is_named_bears_the_id():
    for mode, name in ROW.findall(PAGE.read_text()):
        assert name.startswith(f"test_{mode.lower()}_")


def named_tests() -> set[str]:
    return {found for text in sources() for found in re.findall(r"def (test_\w+)", text)}


def test_every_failure_of_publications_has_a_row_and_each_test_that_is_named_is_there():
    text = PAGE.read_text()
    rows = re.findall(r"^\| PB(\d+) \|.*\| (.+) \|$", text, re.MULTILINE)

    assert [*range(1, 25)] == [int(number) for number, _ in rows]
    assert {number for number, tests in rows if "`test_" not in tests} <= WITHOUT_TEST
    assert set() == {*re.findall(r"`(test_\w+)`", text)} - named_tests()


def test_every_failure_of_maintenance_has_a_row_with_a_test():
    rows = re.findall(r"^\| MT(\d+) \|.*\| (.+) \|$", PAGE.read_text(), re.MULTILINE)

    assert [*range(1, 35)] == [int(number) for number, _ in rows]
    assert all("`test_" in tests for _, tests in rows)


def test_every_demand_of_tables_has_a_row_with_a_test():
    rows = re.findall(r"^\| TF(\d+) \|.*\| (.+) \|$", PAGE.read_text(), re.MULTILINE)

    assert [*range(1, 15)] == [int(number) for number, _ in rows]
    assert all("`test_" in tests for _, tests in rows)


def test_every_line_of_kip_618_names_tests_that_are_there():
    rows = re.findall(r"^\| (.+) \| .+ \| (.+) \|$", KIP_618.read_text(), re.MULTILINE)[1:]
    untested = [line for line, tests in rows if "`test" not in tests]
    named = {name for _, tests in rows for name in re.findall(r"`(test_\w+)`", tests)}

    assert {line for line in untested if "TransactionContext" not in line} <= {"---"}
    assert set() == named - named_tests()
    assert len(rows) > 25
