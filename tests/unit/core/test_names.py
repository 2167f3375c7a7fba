"""Names without their case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.names import folded

ONE = [
    ("Id", "ID"),
    ("\u0131d", "ID"),
    ("\u0130d", "id"),
    ("\u0130d", "i\u0307d"),
    ("\u0130\u0307d", "id"),
    ("\u017fum", "sum"),
    ("\u212aelvin", "kelvin"),
    ("stra\u00dfe", "STRASSE"),
    ("stra\u00dfe", "STRA\u1e9eE"),
    ("\u039f\u03a3", "\u03bf\u03c2"),
    ("\u00b5", "\u03bc"),
]


@pytest.mark.parametrize(("first", "second"), ONE)
def test_names_that_some_reader_takes_for_one_fold_alike(first: str, second: str) -> None:
    assert folded(first) == folded(second)


@pytest.mark.parametrize(("first", "second"), [("a", "\u00e4"), ("e", "\u00e9"), ("o", "\u00f8")])
def test_accents_are_not_case(first: str, second: str) -> None:
    assert folded(first) != folded(second)


@given(st.text(max_size=8))
def test_a_name_folds_as_it_does_in_small_and_in_capital_letters(name: str) -> None:
    assert folded(name.lower()) == folded(name) == folded(name.upper())
    assert folded(name) == folded(folded(name))
