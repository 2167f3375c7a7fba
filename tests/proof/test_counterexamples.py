"""TLC's counterexamples, played against the real code: with the defence exact, without it wrong.

The traces are those of tests/proof/traces. After each one all lives are killed, and the
world is healed twice: with its pending stores, and without them.
"""

import pytest
from tests.proof.models import MUTANTS
from tests.proof.playing import Play
from tests.proof.steps import read_trace
from tests.proof.undefended import UNDEFENDED

OF_ROUTES = {"own refusal"}
"""No route is played; tests/simulation/test_slow_records.py has the stories, with and without."""
MODELS = {model.name: model for model in MUTANTS if model.name not in OF_ROUTES}


def played(name: str) -> list[str]:
    """Play a kept counterexample; return what is wrong in the end, whichever way it is healed."""
    steps = read_trace(name)
    assert steps, f"{name}: no counterexample is kept"
    constants = MODELS[name].constants
    return [
        text
        for forgetful in (False, True)
        for text in Play(constants, steps).run(forgetful=forgetful)
    ]


@pytest.mark.parametrize("name", MODELS)
def test_the_code_stays_exact_on_a_counterexample_that_lacks_one_defence(name):
    assert [] == played(name)


@pytest.mark.parametrize("name", UNDEFENDED)
def test_the_code_goes_wrong_on_a_counterexample_when_it_lacks_the_defence_too(name, monkeypatch):
    UNDEFENDED[name](monkeypatch)

    assert played(name)
