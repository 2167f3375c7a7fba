"""No text makes the reader of specs do more than return a pipeline or report problems."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.spec.load import loads
from penstock.spec.model import Pipeline

SPEC = """
name: shop
kafka: { brokers: "localhost:9092", topics: [orders, { pattern: "shop[.].*" }] }
catalogs:
  lake: { type: sql, uri: "sqlite:///./lake/catalog.db", warehouse: ./lake }
  delta: { type: delta, root: ./delta }
tables:
  - { from: orders, into: lake.shop.orders, continue: true, schema: { create: true } }
  - { from: orders, into: delta.shop.orders, schema: { create: true } }
commit: { every: 30s, or_bytes: 256MB }
quarantine: { into: lake.ops.quarantine, stop_above: 1% }
"""
LINES = SPEC.splitlines()
HOSTILE = [
    "${env:NOWHERE}", "${file:/etc/hostname}", "${", "&a [*a]", "!!python/object:os.system x",
    "1e999", "0x", "12:30", "no", "null", "[]", "{}", "'", '"', "\t", "\u0000", "\ufeff", "- " * 50,
    "{" * 200, "[" * 200, "-1", "99999999999999999999s", "%", "a: b: c", "<<: {a: 1}", "? x",
]  # fmt: skip


def read(text):
    try:
        return loads(text, base=Path("/nowhere"))
    except PenstockError as error:
        return error


@st.composite
def damaged(draw):
    """Damage a spec that is right: characters and lines dropped, doubled, swapped, put in."""
    text = SPEC
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text) - 1))
        to = draw(st.integers(at, min(at + 30, len(text))))
        new = draw(st.sampled_from([*HOSTILE, *LINES]) | st.text(max_size=8))
        text = text[:at] + new + text[draw(st.sampled_from([at, to])) :]
    return text


def test_the_spec_that_is_damaged_here_is_right():
    assert isinstance(read(SPEC), Pipeline)


@settings(max_examples=125)
@given(damaged())
def test_a_damaged_spec_is_a_pipeline_or_a_problem(text):
    assert isinstance(read(text), Pipeline | PenstockError)


@settings(max_examples=100)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_a_pipeline_or_a_problem(text):
    assert isinstance(read(text), Pipeline | PenstockError)


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("key", ["name", "every", "into", "uri", "stop_above", "pattern", "create"])
def test_a_hostile_value_is_a_pipeline_or_a_problem(key, hostile):
    head, _, tail = SPEC.partition(f"{key}: ")
    rest = tail[len(tail.split(",")[0].split(" }")[0].split("\n")[0]) :]

    assert isinstance(read(f"{head}{key}: {hostile}{rest}"), Pipeline | PenstockError)
