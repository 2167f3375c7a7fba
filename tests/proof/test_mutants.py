"""The mutants' driver counts only if it sees a change that matters, and every survivor is explained."""

import ast
import subprocess
import time
from types import FunctionType

import pytest
from tests.proof import mutants
from tests.proof.mutants import KEPT, Stillness, changed, reasons, verdicts
from tests.proof.mutants import SOURCE as SOURCES
from tests.proof.mutating import Mutant, mark, mutants_of, mutated

from penstock.commit.errors import rolled_back
from penstock.core.decide import outranks
from penstock.testing.prepared import claim

SOURCE = '''
def landed(offset: int, stop: int) -> bool:
    """Tell whether it is 1."""
    assert offset >= 0, "offsets begin at 0"
    if offset < stop and not stop == 1:
        return offset + 1 > max(2, stop)
    found = sorted(each for each in (offset, stop) if each)
    return True
'''


def test_every_place_that_decides_is_changed_and_no_other():
    found = mutants_of("penstock/core/x.py", SOURCE)
    found_texts = sorted(f"line {each.line}: {each.text.partition(':')[0]}" for each in found)

    assert [
        "line 5: 1 to 2",
        "line 5: And to Or",
        "line 5: Eq to NotEq",
        "line 5: Lt to LtE",
        "line 5: if negated",
        "line 5: not left out",
        "line 5: part 0 left out",
        "line 5: part 1 left out",
        "line 6: 1 to 2",
        "line 6: 2 to 3",
        "line 6: Add to Sub",
        "line 6: Gt to GtE",
        "line 6: None returned",
        "line 6: max to min",
        "line 7: filter left out",
        "line 7: sorted left out",
        "line 8: None returned",
        "line 8: True to False",
    ] == found_texts


def test_each_mutant_is_another_text():
    texts = {
        ast.unparse(mutated(each, SOURCE)) for each in mutants_of("penstock/core/x.py", SOURCE)
    }

    assert 18 == len(texts)
    assert ast.unparse(ast.parse(SOURCE)) not in texts


def test_a_mutant_names_its_module():
    assert "penstock.core.decide" == Mutant("penstock/core/decide.py", "decide", 0, "").module


def test_a_mutant_keeps_its_name_when_lines_move():
    moved = SOURCE.replace("def landed", "def another() -> int:\n    return 3\n\n\ndef landed")
    named = {str(each) for each in mutants_of("x.py", moved) if each.unit == "landed"}

    assert named == {str(each) for each in mutants_of("x.py", SOURCE)}


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Tell whether it is 1.", "Say whether it is 1.", True),
        ("    found", "    # a word\n    found", True),
        ("def landed", "LIMIT = 3\n\n\ndef landed", True),
        ("offset + 1", "offset + 2", False),
    ],
)
def test_verdicts_outlive_words_and_other_functions_only(old, new, same):
    assert same == (mark("landed", SOURCE) == mark("landed", SOURCE.replace(old, new)))


def test_a_function_is_changed_where_it_is():
    place = "penstock/core/decide.py"
    mutant = next(
        each
        for each in mutants_of(place, (SOURCES / place).read_text())
        if each.unit == "outranks" and each.text.startswith("if negated")
    )
    code, defaults = outranks.__code__, outranks.__defaults__
    twin = FunctionType(code, outranks.__globals__, argdefs=defaults)
    theirs, ours = claim(2, "b"), claim(2, "a")

    assert changed(mutant, {(str(SOURCES / place), "outranks"): [twin]})
    assert outranks(theirs, ours)
    assert not twin(theirs, ours)


def test_a_default_is_no_part_of_a_functions_code():
    """It is made where the function is: such a mutant is tried in a process of its own."""
    place = "penstock/commit/errors.py"
    (mutant,) = (
        each
        for each in mutants_of(place, (SOURCES / place).read_text())
        if each.unit == "rolled_back" and each.text.startswith("False to True")
    )
    twin = FunctionType(rolled_back.__code__, rolled_back.__globals__)

    assert not changed(mutant, {(str(SOURCES / place), "rolled_back"): [twin]})


def test_a_process_that_sleeps_on_hangs(monkeypatch):
    monkeypatch.setattr(mutants, "STILL_SECONDS_MAX", 0.0)
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        still = Stillness(sleeping.pid)
        try:
            while not still.for_long():
                time.sleep(0.1)
        finally:
            sleeping.kill()


def test_every_survivor_has_its_reason():
    """A reason is a line of survivors.txt: the mutant, two spaces, the reason."""
    if not KEPT.exists():
        return
    survivors = {name for name, (verdict, _) in verdicts().items() if verdict == "survived"}

    assert set() == survivors - set(reasons())
    assert len(survivors) <= 30
