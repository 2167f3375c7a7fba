"""The canonical form of source partitions and positions."""

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidError
from penstock.core.positions import (
    canonical,
    key_of,
    parse_key,
    parse_position,
    position_of,
    values_of,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts
objects = st.dictionaries(texts, scalars, max_size=4)


def _typed(values):
    return {name: (type(value), value) for name, value in values.items()}


@given(objects)
def test_what_is_written_is_read_again(values):
    position = position_of(values, "s")

    assert _typed(values) == _typed(values_of(position))
    assert position == parse_position(position.encode())


@given(objects, objects)
def test_objects_are_equal_exactly_when_their_texts_are(one, other):
    assert (_typed(one) == _typed(other)) == (canonical(one) == canonical(other))


@given(objects, st.randoms())
def test_the_order_of_members_does_not_matter(values, random):
    members = list(values.items())
    random.shuffle(members)

    assert canonical(values) == canonical(dict(members))


@given(texts, objects, st.booleans(), st.sampled_from([None, 1]))
def test_a_key_is_the_same_in_every_way_of_writing(name, values, ascii_only, indent):
    key = key_of(name, values)
    other = json.dumps([name, values], ensure_ascii=ascii_only, indent=indent).encode()

    assert key == parse_key(key.raw) == parse_key(other)
    assert (key.raw, other) == (parse_key(key.raw).raw, parse_key(other).raw)


@given(st.binary(max_size=40) | st.recursive(scalars | st.floats(), st.lists).map(json.dumps))
def test_whatever_is_in_the_topic_is_read_or_refused(found):
    raw = found if isinstance(found, bytes) else found.encode()
    for parse in (parse_key, parse_position):
        with suppress(InvalidError):
            parse(raw)
