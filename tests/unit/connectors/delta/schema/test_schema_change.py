"""Columns are added to a Delta schema; what readers would have to learn first is refused."""

import pytest

from penstock.connectors.delta.schema.schema_change import _added
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

    assert struct(b="long", s=struct(x="long", y="string"), a="date") == _added(
        "delta.t", old, struct(b="long", **{f["name"]: f["type"] for f in wide["fields"]})
    )


def test_a_wider_type_is_refused() -> None:
    with pytest.raises(InvalidError) as raised:
        _added("delta.t", struct(n="integer"), struct(n="long"))
    assert "P468" == raised.value.code
