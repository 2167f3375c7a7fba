from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.app.inspect.odd_members import named, odd_members, without

LINE = pa.struct([("sku", pa.string()), ("size", pa.struct([("w", pa.int64())]))])
NOW = pa.schema(
    [
        ("id", pa.int64()),
        ("to", LINE),
        ("lines", pa.list_(LINE)),
        ("by", pa.map_(pa.string(), LINE)),
    ]
)


def messages(*values: Any) -> list[pa.RecordBatch]:
    texts = [None if each is None else json.dumps(each).encode() for each in values]
    return [pa.record_batch({"value": pa.array(texts, pa.binary())})]


def odd(now: list[Any], then: list[Any]) -> list[str]:
    return sorted(named(path) for path in odd_members(NOW, messages(*now), messages(*then)))


@pytest.mark.parametrize(
    ("now", "then", "found"),
    [
        ([{"id": 1}], [{"id": 2}], []),
        ([{"id": 1, "to": None}], [{"id": 1}], ["to"]),
        ([{"id": 1}], [{"id": 1, "old": {"a": 1}}], ["old"]),
        ([{"to": {"sku": "a"}}], [{"to": {}}], ["to.sku"]),
        (
            [{"to": {"size": {"w": 1}}}],
            [{"to": {"size": {"was": 1}}}],
            ["to.size.w", "to.size.was"],
        ),
        ([{"lines": [{"sku": "a"}]}], [{"lines": [{}]}], ["lines.sku"]),
        ([{"lines": [{"size": {"w": 1}}]}], [{"lines": [{"size": {}}]}], ["lines.size.w"]),
        ([{"by": {"k": {"sku": "a"}}}], [{"by": {"k": {}}}], ["by.sku"]),
        ([{"by": {"k": None}}], [{"by": {"other": None}}], []),
        ([{"to": {"sku": "a"}}], [{"to": None}], []),
        ([{"lines": [{"sku": "a"}]}], [{"lines": []}], []),
        ([{"to": {"sku": "a"}}, {"to": {"sku": "a"}}], [{"to": {}}, {"to": {"sku": "a"}}], []),
        ([None], [{"id": 1}], []),
    ],
)
def test_members_are_odd_where_their_object_is_there_on_both_sides(now, then, found):
    assert found == odd(now, then)


def test_what_is_odd_is_left_out_and_order_says_nothing():
    now = b'{"to":{"sku":"a","w":1.50},"lines":[null,{"w":1}],"by":{"k":{"w":1}},"id":1}'
    then = b'{"id":1,"by":{"k":{}},"lines":[null,{}],"to":{"w":1.50}}'
    paths = {("to", "sku"), ("lines", None, "w"), ("by", None, "w"), ("none", "deeper")}

    assert without(now, paths) == without(then, paths)
    assert without(then, ()) != without(then.replace(b"1.50", b"1.5"), ())
    assert None is without(None, paths)
