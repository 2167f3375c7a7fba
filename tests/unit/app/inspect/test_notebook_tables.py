"""Answers of the API as a notebook shows them."""

from __future__ import annotations

from penstock.app.inspect.notebook_tables import NotebookTable
from penstock.app.inspect.plan.forecast import Plan, StartRange, TablePlan

PLAN = Plan(
    "shop",
    (TablePlan("lake.a", create=True, columns=(("id", "long"),), ranges=(
        StartRange("orders", 0, 0, 7, "kafka.start: earliest"),
    )),),
)  # fmt: skip


class Given(NotebookTable):
    def __init__(self, *rows) -> None:
        self.given = list(rows)

    def rows(self):
        return self.given


def test_a_plan_is_a_table_in_html_and_in_arrow() -> None:
    assert "<td>lake.a</td><td>True</td><td>id long</td>" in PLAN._repr_html_()
    assert [("lake.a", 7)] == [
        (row["table"], row["records"]) for row in PLAN.to_arrow().to_pylist()
    ]


def test_text_of_others_is_escaped_and_cut() -> None:
    shown = Given({"value": "<script>" + "x" * 1000})._repr_html_()

    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert len(shown) < 400


def test_nothing_is_shown_as_nothing() -> None:
    assert "<p>nothing</p>" == Given()._repr_html_()
