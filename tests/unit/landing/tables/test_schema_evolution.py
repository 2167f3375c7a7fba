"""What a spec declares counts for columns that come later, too, at all depths."""

from __future__ import annotations

from penstock.core.schema import Field, Kind, List, Map, Schema, Struct, Type
from penstock.landing.tables.schema_evolution import with_declared

HINTS: dict[str, Type] = {
    "at": Kind.DATE,
    "customer.since": Kind.DATE,
    "items[].at": Kind.DATE,
    "rooms{}.at": Kind.DATE,
    "old": Kind.DATE,
    "customer.old": Kind.DATE,
}


def schema(name: str, type_: Type, *, top: str) -> Schema:
    """Make a schema with a field of this name and type everywhere, next to an existing one."""
    inner = Struct((Field("old", Kind.STRING), Field(name, type_)))
    fields = (
        Field("old", Kind.STRING),
        Field("customer", Struct((*inner.fields[:1], Field("since", type_)))),
        Field("items", List(inner)),
        Field("rooms", Map(Kind.STRING, inner)),
        Field(top, type_),
    )
    return Struct(fields)


def test_what_is_new_gets_its_declared_type_and_what_is_there_keeps_its_own() -> None:
    there = Struct((Field("old", Kind.STRING),))
    before = Struct(
        (
            Field("old", Kind.STRING),
            Field("customer", there),
            Field("items", List(there)),
            Field("rooms", Map(Kind.STRING, there)),
        )
    )

    found = with_declared(before, schema("at", Kind.STRING, top="at"), HINTS)

    assert schema("at", Kind.DATE, top="at") == found
