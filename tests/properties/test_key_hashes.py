"""Hashes: equal keys have equal ones, and where two touched keys share one, rows are told apart."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rows.keyed.hashes import TEXT_BYTES_MAX, key_hashes
from penstock.rows.keyed.lookup import KeyLookup

LONG_TEXTS = st.text(max_size=20) | st.integers(250, 260).map("é".__mul__)
COLUMNS = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates(dt.date(1600, 1, 1))),
    "decimal": (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
    "uuid": (pa.binary(16), st.binary(min_size=16, max_size=16)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "text": (pa.string(), LONG_TEXTS),
    "large text": (pa.large_string(), LONG_TEXTS),
    "bytes": (pa.binary(), st.binary(max_size=20)),
}


@pytest.mark.parametrize("kind", COLUMNS)
@given(st.data())
def test_the_hash_of_a_key_depends_on_nothing_around_it(kind: str, data: st.DataObject) -> None:
    type_, one = COLUMNS[kind]
    values = data.draw(st.lists(one, min_size=1, max_size=9))
    at = data.draw(st.integers(0, len(values) - 1))
    column = pa.array(values, type_)
    alone = key_hashes([pa.array([values[at]], type_)] * 2)
    sliced = key_hashes([column[at:]] * 2)

    assert alone.tolist() == key_hashes([column] * 2)[at : at + 1].tolist()
    assert alone.tolist() == sliced[:1].tolist()


def test_texts_are_hashed_by_their_length_and_their_end() -> None:
    texts = ["", "\0", "\0\0", "12345678", "123456789", "x" * 300, "x" * 301, "yx" + "x" * 299]
    hashes = key_hashes([pa.array(texts)])

    assert len(texts) - 1 == len(set(hashes.tolist()))
    assert len(texts[-1]) > TEXT_BYTES_MAX
    assert hashes[-1] == hashes[-2]


def test_touched_keys_that_share_a_hash_are_told_apart() -> None:
    """Long texts that differ at their beginnings only do; one of them may be touched alone."""
    texts = [letter + "x" * 300 for letter in "abcd"]
    types = {"id": pa.string()}
    rows = pa.record_batch({"id": [*texts, None, texts[1]]})
    for touched in (texts[1:3], texts[1:2]):
        found = KeyLookup([pa.array(touched)]).in_rows(rows, types)
        expected = [(at, touched.index(text)) for at, text in enumerate(texts) if text in touched]

        assert [*expected, (5, 0)] == list(
            zip(found.rows.tolist(), found.keys.tolist(), strict=True)
        )


@given(st.lists(st.tuples(st.integers(0, 99), st.text(max_size=9)), unique=True, max_size=30))
def test_no_touched_key_is_left_out_by_the_filters(keys: list[tuple[int, str]]) -> None:
    columns = [
        pa.array([key[at] for key in keys], kind)
        for at, kind in enumerate([pa.int64(), pa.string()])
    ]
    rows = pa.record_batch(dict(zip("ab", columns, strict=True)))
    lookup = KeyLookup(columns)
    types = {"a": pa.int64(), "b": pa.string()}

    assert np.arange(len(keys)).tolist() == lookup.may_be_in(rows, types).tolist()


def test_texts_that_count_up_have_hashes_of_their_own() -> None:
    """Two words that differ in their highest byte cancel each other out where nothing mixes down."""
    texts = pa.array([f"tenant-{number}" for number in range(200_000)])

    assert len(texts) == len(np.unique(key_hashes([texts])))
