"""Every failure mode has a test that bears its id, and no test bears another id."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/design/failure-modes.md"
ROW = re.compile(r"^\| ([A-Z]\d+) \|.*\| `(test_\w+)` \|$", re.MULTILINE)
TEST = re.compile(r"def test_([kcfsrdw]\d+)_")


def borne() -> set[str]:
    places = [ROOT / "tests", ROOT / "src/penstock/testing"]
    texts = [path.read_text() for place in places for path in place.rglob("*.py")]
    return {found.upper() for text in texts for found in TEST.findall(text)}


def test_every_failure_mode_has_a_test_and_every_id_its_failure_mode():
    assert {mode for mode, _ in ROW.findall(PAGE.read_text())} == borne()


def test_the_test_that_is_named_bears_the_id():
    for mode, name in ROW.findall(PAGE.read_text()):
        assert name.startswith(f"test_{mode.lower()}_")
