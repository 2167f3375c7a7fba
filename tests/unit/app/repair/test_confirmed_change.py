"""Consent to a change is the pipeline's name, and nothing else."""

import pytest

from penstock.app.repair.confirmed_change import Change, Step, require_consent
from penstock.cli.confirming import confirmed
from penstock.core.errors import InvalidError

DROP = Change("shop", (Step("12 records are given up", destructive=True),))


def test_the_pipelines_name_is_consent(capsys) -> None:
    assert confirmed(DROP, "shop")
    assert "  12 records are given up\n" == capsys.readouterr().err


@pytest.mark.parametrize("given", ["", "Shop", "shop ", "other"])
def test_another_name_is_none(given) -> None:
    with pytest.raises(InvalidError, match="nothing was changed") as refused:
        require_consent(DROP, given)

    assert "P171" == refused.value.code
    assert "--yes shop" in refused.value.hint


def test_without_a_name_and_a_terminal_it_is_a_dry_run(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)

    assert not confirmed(DROP, None)
    assert "Nothing was changed. To apply this:  --yes shop" in capsys.readouterr().err


def test_a_change_that_changes_nothing_asks_for_no_consent(capsys) -> None:
    stays = Step("3 records still do not fit: P302; they stay open", changes=False)

    assert not confirmed(Change("shop", (stays,)), None)
    assert "--yes" not in capsys.readouterr().err


def test_a_change_without_steps_is_none(capsys) -> None:
    assert not confirmed(Change("shop", ()), "shop")
    assert "nothing to do" in capsys.readouterr().err
