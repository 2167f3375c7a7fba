"""A spec with something undecided is refused at its place, until somebody has decided."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from tests.unit.spec.conftest import BASE, Changed

from penstock.spec.load import loads
from penstock.spec.model import Pipeline
from penstock.spec.problems import SpecError

ENTRIES = """\
undecided:
- option: auto.offset.reset
  value: latest
  decide: "where to begin: kafka.start"
- { option: errors.tolerance, decide: quarantine.stop_above }
kafka:
"""


def test_each_undecided_entry_is_an_error_at_its_place(
    spec: Changed, codes: Callable[..., list[tuple[int, str]]], reported: Callable[..., str]
) -> None:
    text = spec(("kafka:\n", ENTRIES))

    assert [(3, "P175"), (6, "P175")] == codes(text)
    assert "'auto.offset.reset' = 'latest' is not decided: where to begin: kafka.start" in reported(
        text
    )
    assert "remove this entry" in reported(text)


def test_an_entry_hides_no_other_problem(
    spec: Changed, codes: Callable[..., list[tuple[int, str]]]
) -> None:
    text = spec(("kafka:\n", ENTRIES), ("into: lake.bronze", "into: lke.bronze"))

    assert ["P175", "P175", "P117"] == [code for _, code in codes(text)]


@pytest.mark.parametrize("undecided", ["", "undecided: []\n"])
def test_a_spec_without_entries_is_decided(spec: Changed, undecided: str) -> None:
    assert () == loads(undecided + spec(), base=BASE).undecided


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ("undecided: [start]", "P106"),
        ("undecided: start", "P106"),
        ("undecided: [{ option: x }]", "P105"),
        ("undecided: [{ option: x, decide: y, why: z }]", "P104"),
    ],
)
def test_an_entry_of_another_shape_is_refused_as_such(
    spec: Changed, codes: Callable[..., list[tuple[int, str]]], entries: str, code: str
) -> None:
    assert [code] == [found for _, found in codes(f"{entries}\n{spec()}")]


def test_python_refuses_what_is_undecided_as_well(spec: Changed) -> None:
    whole = yaml.safe_load(spec())
    entry = {"option": "auto.offset.reset", "decide": "kafka.start"}
    assert () == Pipeline(**whole).undecided

    with pytest.raises(SpecError, match="is not decided") as refused:
        Pipeline(**whole, undecided=[entry])
    assert "P175" == refused.value.code
