"""Columns are added to a Delta schema; what readers would have to learn first is refused."""

import pytest

from penstock.connectors.delta.schema.schema_change import _grown
from penstock.core.errors import InvalidError


def struct(**fields: object) -> dict:
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in fields.items()
        ],
    }


def test_columns_are_added_after_the_existing_ones() -> None:
    old, wide = (
        struct(b="long", s=struct(x="long")),
        struct(s=struct(y="string", x="long"), a="date"),
    )

    assert struct(b="long", s=struct(x="long", y="string"), a="date") == _grown(
        "delta.t", old, struct(b="long", **{f["name"]: f["type"] for f in wide["fields"]})
    )


def test_a_wider_type_is_refused() -> None:
    with pytest.raises(InvalidError) as raised:
        _grown("delta.t", struct(n="integer"), struct(n="long"))
    assert "P468" == raised.value.code


def test_a_type_that_is_widened_is_noted_at_the_nearest_member() -> None:
    listed = {"type": "array", "containsNull": False, "elementType": struct(x="float")}
    mapped = {"type": "map", "keyType": "string", "valueContainsNull": True, "valueType": "integer"}
    old = struct(n="integer", nested=struct(listed=listed), mapped=mapped)
    old["fields"][0] |= {
        "nullable": False,
        "metadata": {
            "comment": "kept",
            "delta.typeChanges": [{"fromType": "short", "toType": "integer"}],
        },
    }
    wide = struct(
        n="long",
        nested=struct(listed={**listed, "containsNull": True, "elementType": struct(x="double")}),
        mapped={**mapped, "valueType": "long"},
    )
    number, nested, counted = _grown("delta.t", old, wide, [])["fields"]

    to_long = {"fromType": "integer", "toType": "long"}
    known = old["fields"][0]["metadata"]["delta.typeChanges"]
    assert ("long", True) == (number["type"], number["nullable"])
    assert {"comment": "kept", "delta.typeChanges": [*known, to_long]} == number["metadata"]
    assert {} == nested["metadata"]
    inner = nested["type"]["fields"][0]["type"]
    assert inner["containsNull"]
    [x] = inner["elementType"]["fields"]
    assert {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]} == x["metadata"]
    assert {"delta.typeChanges": [{**to_long, "fieldPath": "value"}]} == counted["metadata"]
