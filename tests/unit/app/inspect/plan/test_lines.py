"""What a plan says to people."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from penstock.app.inspect.plan.forecast import Plan, TablePlan
from penstock.cli.plan import plan_lines
from penstock.core.hold import HoldAct


def shown(plan: Plan) -> str:
    """Print a plan as the command does."""
    console = Console(file=io.StringIO(), width=200)
    for line in plan_lines(plan):
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("columns_policy", "said"),
    [
        ("rescue", "fields without a column: their values are kept in _rescued: coupon string"),
        ("freeze", "fields without a column: the table is parked: coupon string"),
    ],
)
def test_what_becomes_of_fields_without_a_column_is_said_in_words(
    columns_policy: str, said: str
) -> None:
    table = TablePlan("lake.a", missing=(("coupon", "string"),), columns_policy=columns_policy)

    assert said in shown(Plan("shop", (table,)))


def test_a_pattern_that_matches_no_topic_is_named() -> None:
    plan = Plan("shop", (), creates_quarantine="lake.ops.q", unmatched_patterns=("shop\\..+",))

    text = shown(plan)
    assert text.startswith("shop  nothing to land: no topic matches\n")
    assert "  no topic matches the pattern shop\\..+\n" in text
    assert "every table holds" not in text


def test_settings_that_apply_only_at_creation_are_said_in_one_line() -> None:
    table = TablePlan("lake.a", creation_only=("partition_by", "sort_by"))

    said = "partition_by, sort_by: apply only when a table is created, and this one exists"
    assert said in shown(Plan("shop", (table,)))
    assert "created, and" not in shown(Plan("shop", (TablePlan("lake.a"),)))


def test_a_table_whose_rows_are_exchanged_is_told() -> None:
    said = "rows of a partition meet in one task, by hash, which writes them"

    assert said in shown(Plan("shop", (TablePlan("lake.a", exchanged=True),)))
    assert said not in shown(Plan("shop", (TablePlan("lake.a"),)))


def test_a_hint_that_has_no_effect_is_said_with_the_type_that_is_there() -> None:
    table = TablePlan("lake.a", ignored_hints=(("id", "string", "long"),))

    assert "the hint id: string has no effect: the column is there, as long" in shown(
        Plan("shop", (table,))
    )


@pytest.mark.parametrize(
    ("hold", "said"),
    [
        (HoldAct.WIDEN, "epochs would widen"),
        (HoldAct.STOP, "it would be parked, P895"),
        (HoldAct.NOTHING, "nothing is done about it"),
    ],
)
def test_what_a_run_would_do_about_too_many_files_is_said(hold: HoldAct, said: str) -> None:
    plan = Plan("shop", (), sick={"lake.a": 23_104}, hold=hold)

    line = f"lake.a has 23,104 files too many: {said}; to make fewer:  penstock maintain lake.a"
    assert line in shown(plan)
