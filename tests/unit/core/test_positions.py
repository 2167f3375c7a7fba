import pytest

from penstock.core.errors import InvalidError
from penstock.core.positions import (
    OBJECT_BYTES_MAX,
    key_of,
    parse_key,
    parse_position,
    partition_of,
    position_of,
    stands_of,
    values_of,
)


def test_the_key_of_a_source_partition_has_connects_bytes():
    key = key_of("segments", {"table": "lake.gold.segments"})

    assert b'["segments",{"table":"lake.gold.segments"}]' == key.raw


def test_strings_are_escaped_as_jackson_does():
    """By hand from Jackson 2.21.2 in Spark's archives (ObjectMapper.writeValueAsBytes)."""
    position = position_of({"a": 'é"\\/\b\t\n\f\r\x00\x1f\x7f\u2028😀'}, "s")

    expected = '{"a":"é\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001F\x7f\u2028\\uD83D\\uDE00"}'
    assert expected == position


def test_members_are_in_the_order_of_their_names():
    assert '{"a":null,"b":true,"é":-1}' == position_of({"é": -1, "b": True, "a": None}, "s")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"a": 1.5}, "float"),
        ({"a": {"b": 1}}, "dict"),
        ({"a": [1]}, "list"),
        ({"a": b"x"}, "bytes"),
        ({"a": 2**63}, "64 bits"),
        ({"a": -(2**63) - 1}, "64 bits"),
        ({"a": "\ud800"}, "half a character"),
        ({"\udfff": 1}, "half a character"),
        ({1: 1}, "no string"),
        ({"a": "x" * OBJECT_BYTES_MAX}, "are allowed"),
        ({"penstock": "ledger"}, "reserved"),
    ],
)
def test_a_source_that_gives_something_else_is_named(values, says):
    with pytest.raises(InvalidError, match=says) as caught:
        partition_of(values, "shop.feeds:Weather")

    assert "P290" == caught.value.code
    assert "shop.feeds:Weather" in caught.value.message


def test_the_limits_themselves_are_positions():
    values = {"least": -(2**63), "most": 2**63 - 1}

    assert values == values_of(position_of(values, "s"))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"null",
        b"{}",
        b'["segments"]',
        b'["segments",{},1]',
        b"[1,{}]",
        b'["segments",{"a":1.0}]',
        b'["segments",{"a":NaN}]',
        b'["segments",{"a":{}}]',
        b'["segments",{"a":1,"a":2}]',
        b'["segments",{"a":9223372036854775808}]',
        b'["segments",{"a":"\\ud800"}]',
        b'["\\ud800",{}]',
        b"[" * 100_000,
        b'["segments",{"a":' + b"9" * 5_000 + b"}]",
    ],
)
def test_a_key_in_another_form_is_refused(raw):
    with pytest.raises(InvalidError) as caught:
        parse_key(raw)

    assert "P291" == caught.value.code


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b"1", b'{"a":1.5}', b'{"a":1,"a":1}'])
def test_a_position_in_another_form_is_refused(raw):
    with pytest.raises(InvalidError) as caught:
        parse_position(raw)

    assert "P291" == caught.value.code


def test_a_key_of_connect_keeps_its_bytes():
    raw = b'["jdbc", {"table":"orders", "protocol":"1"}]'
    key = parse_key(raw)

    assert raw == key.raw
    assert key_of("jdbc", {"protocol": "1", "table": "orders"}) == key


def test_a_shared_topic_is_read_for_one_publication():
    entries = {
        b'["segments",{"table":"a"}]': b'{"row":1}',
        b'["segments",{"penstock":"ledger","task":0}]': b'{"v":9}',
        b'["jdbc",{"table":"a"}]': b'{"row":2.5}',
        b'["jdbc",{"ratio":1.5}]': b"{}",
        b"garbage": b"garbage",
    }

    assert {key_of("segments", {"table": "a"}): '{"row":1}'} == stands_of("segments", entries)


def test_two_keys_of_one_partition_are_refused():
    entries = {b'["s",{"a":1,"b":2}]': b"{}", b'["s",{"b":2,"a":1}]': b"{}"}

    with pytest.raises(InvalidError, match="same source partition") as caught:
        stands_of("s", entries)

    assert "P291" == caught.value.code
