"""The specification holds in a tiny model, and each defence taken away breaks what it defends.

`make prove` searches the models whole; here a few stand for all, so that neither rots.
"""

import re

import pytest
from tests.proof import prove

SEVERAL = ("compare and set", "own id", "rollback fence")


def test_the_specification_holds_for_two_lives_and_two_epochs():
    found, said = prove.check(prove.Model("tiny", "no faults"), seconds=100)

    assert found.as_it_should, said[-2000:]
    assert found.distinct > 100


@pytest.mark.parametrize("name", SEVERAL)
def test_a_defence_taken_away_breaks_what_it_defends(name):
    [mutant] = [each for each in prove.MUTANTS if each.name == name]
    found, said = prove.check(mutant, seconds=100)

    assert found.as_it_should, said[-2000:]


def test_every_defence_that_the_specification_names_has_a_mutant():
    named = set(re.findall(r'On\("([^"]+)"\)', prove.SPEC.read_text()))

    assert named == {each.name for each in prove.MUTANTS}


def test_the_kept_output_is_of_every_model_and_as_it_should_be():
    for model in (*prove.SMALL, *prove.MUTANTS):
        kept = prove.RESULTS / f"{model.name.replace(' ', '-')}.txt"
        text = kept.read_text()

        assert text.startswith(prove.configuration(model)), f"{kept.name}: run make prove"
        assert prove.finding(model, text, 0).as_it_should, kept.name


def test_the_specification_is_short_enough_to_be_read():
    lines = prove.SPEC.read_text().splitlines()

    assert len(lines) <= 500
    assert max(map(len, lines)) <= 100
