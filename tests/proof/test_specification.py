"""The specification holds in a tiny model, and each defence taken away breaks what it defends.

`make prove` searches the models whole; here a few are searched, so that neither rots.
"""

import re

import pytest
from tests.proof import (
    answers_models,
    delta_entries_models,
    exchange_models,
    keyed_models,
    load_models,
    maintain_models,
    models,
    prove,
    publish_models,
    row_ids_models,
    shards_models,
)
from tests.proof.steps import TRACES, read_trace, trace_path
from tests.proof.tlc_output import steps_of

SEVERAL = ("compare and set", "own id", "rollback fence")


def _of(specification):
    return [each for each in publish_models.MUTANTS if each.specification is specification]


SPECIFICATIONS = (
    (models.PENSTOCK, models.MUTANTS),
    (keyed_models.KEYED, keyed_models.MUTANTS),
    (maintain_models.MAINTAIN, maintain_models.MUTANTS),
    (load_models.LOAD, load_models.MUTANTS),
    (publish_models.PUBLISH, _of(publish_models.PUBLISH)),
    (publish_models.TASKS, _of(publish_models.TASKS)),
    (row_ids_models.ROW_IDS, row_ids_models.MUTANTS),
    (shards_models.SHARDS, shards_models.MUTANTS),
    (answers_models.ANSWERS, answers_models.MUTANTS),
    (delta_entries_models.DELTA_ENTRIES, delta_entries_models.MUTANTS),
    (exchange_models.EXCHANGE, exchange_models.MUTANTS),
)


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


def test_keyed_tables_hold_while_others_compact_and_a_defence_taken_away_breaks_them():
    [moves] = [each for each in keyed_models.SMALL if each.name == "keyed-moves"]
    [mutant] = [each for each in keyed_models.MUTANTS if each.name == "delete state"]

    for model in (moves, mutant):
        found, said = prove.check(model, seconds=100)

        assert found.as_it_should, said[-2000:]


def test_maintenance_holds_beside_landing_and_a_defence_taken_away_breaks_it():
    [sweep] = [each for each in maintain_models.SMALL if each.name == "maintain-pipelined"]
    [mutant] = [each for each in maintain_models.MUTANTS if each.name == "era"]

    for model in (sweep, mutant):
        found, said = prove.check(model, seconds=100)

        assert found.as_it_should, said[-2000:]


def test_publishing_holds_for_two_runs_and_a_defence_taken_away_breaks_it():
    [tiny] = [each for each in publish_models.SMALL if each.name == "publish-tiny"]
    [mutant] = [each for each in publish_models.MUTANTS if each.name == "look before fence"]

    for model in (tiny, mutant):
        found, said = prove.check(model, seconds=100)

        assert found.as_it_should, said[-2000:]


def test_shards_begin_once_and_a_defence_taken_away_breaks_that():
    [mutant] = [each for each in shards_models.MUTANTS if each.name == "examined"]
    found, said = prove.check(mutant, seconds=100)

    assert found.as_it_should, said[-2000:]


def test_what_is_kept_of_answers_holds_and_the_etag_of_a_commit_breaks_it():
    [pointer] = [each for each in answers_models.SMALL if each.name == "answers-pointer"]
    [mutant] = [each for each in answers_models.MUTANTS if each.name.startswith("ETag")]

    for model in (pointer, mutant):
        found, said = prove.check(model, seconds=100)

        assert found.as_it_should, said[-2000:]


@pytest.mark.parametrize(
    ("specification", "mutants"),
    SPECIFICATIONS,
    ids=[
        "penstock",
        "keyed",
        "maintain",
        "load",
        "publish",
        "tasks",
        "row-ids",
        "shards",
        "answers",
        "entries",
        "exchange",
    ],
)
def test_every_defence_that_a_specification_names_has_a_mutant(specification, mutants):
    named = set(re.findall(r'On\("([^"]+)"\)', specification.path.read_text()))

    assert named == {each.name for each in mutants}


def test_the_kept_figures_are_of_every_model_and_as_they_should_be():
    kept = prove.kept()

    for model in (*prove.SMALL, *prove.MUTANTS):
        found = kept[model.name]

        assert found.of == models.mark(model), f"{model.name}: run make prove"
        assert found.as_it_should, model.name


def test_a_counterexample_is_kept_of_every_mutant_as_long_as_the_search_was_deep():
    assert {trace_path(each.name) for each in models.MUTANTS} == set(TRACES.iterdir())
    for name, found in prove.kept().items():
        if found.model.breaks and found.model.specification is models.PENSTOCK:
            assert len(read_trace(name)) == found.depth - 1, name


@pytest.mark.parametrize("specification", [each for each, _ in SPECIFICATIONS])
def test_a_specification_is_short_enough_to_be_read(specification):
    lines = specification.path.read_text().splitlines()

    assert len(lines) <= 500
    assert max(map(len, lines)) <= 100
