"""The specification holds in a tiny model, and each defence taken away breaks what it defends.

`make prove` searches the models whole; here a few stand for all, so that neither rots.
"""

import re

import pytest
from tests.proof import models, prove
from tests.proof.steps import TRACES, read_trace, trace_path
from tests.proof.tlc_output import steps_of

SEVERAL = ("compare and set", "own id", "rollback fence")


def test_the_specification_holds_for_two_lives_and_two_epochs():
    found, said = prove.check(models.Model("tiny", "no faults"), seconds=100)

    assert found.as_it_should, said[-2000:]
    assert found.distinct > 100


@pytest.mark.parametrize("name", SEVERAL)
def test_a_defence_taken_away_breaks_what_it_defends(name):
    [mutant] = [each for each in models.MUTANTS if each.name == name]
    found, said = prove.check(mutant, seconds=100)

    assert found.as_it_should, said[-2000:]
    assert steps_of(said) == read_trace(name)


def test_every_defence_that_the_specification_names_has_a_mutant():
    named = set(re.findall(r'On\("([^"]+)"\)', models.SPEC.read_text()))

    assert named == {each.name for each in models.MUTANTS}


def test_the_kept_figures_are_of_every_model_and_as_they_should_be():
    kept, specification = prove.kept(), models.SPEC.read_text()

    for model in (*models.SMALL, *models.MUTANTS):
        found = kept[model.name]

        assert found.of == models.mark(model, specification), f"{model.name}: run make prove"
        assert found.as_it_should, model.name


def test_a_counterexample_is_kept_of_every_mutant_as_long_as_the_search_was_deep():
    assert {trace_path(each.name) for each in models.MUTANTS} == set(TRACES.iterdir())
    for name, found in prove.kept().items():
        if found.model.breaks:
            assert len(read_trace(name)) == found.depth - 1, name


def test_the_specification_is_short_enough_to_be_read():
    lines = models.SPEC.read_text().splitlines()

    assert len(lines) <= 500
    assert max(map(len, lines)) <= 100
