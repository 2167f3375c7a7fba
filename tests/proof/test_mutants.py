"""The mutants' driver counts only if it sees a change that matters, and every survivor is explained."""

import ast

from tests.proof.mutants import KEPT, REASONS, Mutant, mutants_of, mutated, verdicts

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
    told = sorted(each.text for each in mutants_of("penstock/core/x.py", SOURCE))

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
    ] == told


def test_each_mutant_is_another_text():
    texts = {
        ast.unparse(mutated(each, SOURCE)) for each in mutants_of("penstock/core/x.py", SOURCE)
    }

    assert 18 == len(texts)
    assert ast.unparse(ast.parse(SOURCE)) not in texts


def test_a_mutant_names_its_module():
    assert "penstock.core.decide" == Mutant("penstock/core/decide.py", 0, "").module


def test_every_survivor_has_its_reason():
    """A reason is a line of survivors.txt: the mutant, two spaces, the reason."""
    if not KEPT.exists():
        return
    reasons = dict(line.split("  ", 1) for line in REASONS.read_text().splitlines() if line)
    survivors = {name for name, verdict in verdicts().items() if verdict == "survived"}

    assert set() == survivors - set(reasons)
    assert len(survivors) <= 30
