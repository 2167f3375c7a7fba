"""The type tree: join never narrows, JSON parses back, unknown is left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.core.schema import (
    Decimal,
    Field,
    Fixed,
    Kind,
    List,
    Map,
    Struct,
    Type,
    schema_from_json,
    type_from_json,
    type_to_json,
)
from penstock.core.schema_join import Clash, join, known, united, with_hints

POINT = Struct((Field("x", Kind.LONG, required=True), Field("y", Kind.DOUBLE)))


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [
        (Kind.LONG, Kind.LONG, Kind.LONG),
        (Kind.INT, Kind.LONG, Kind.LONG),
        (Kind.LONG, Kind.INT, Kind.LONG),
        (Kind.FLOAT, Kind.DOUBLE, Kind.DOUBLE),
        (Kind.LONG, Kind.DOUBLE, Kind.DOUBLE),
        (Kind.UNKNOWN, Kind.DATE, Kind.DATE),
        (Kind.DATE, Kind.UNKNOWN, Kind.DATE),
        (Decimal(5, 2), Decimal(9, 2), Decimal(9, 2)),
        (List(Kind.UNKNOWN), List(Kind.INT), List(Kind.INT)),
        (List(Kind.INT, element_required=True), List(Kind.LONG), List(Kind.LONG)),
        (Map(Kind.STRING, Kind.INT), Map(Kind.STRING, Kind.LONG), Map(Kind.STRING, Kind.LONG)),
    ],
)
def test_types_join_without_narrowing(left: Type, right: Type, joined: Type) -> None:
    assert (joined, []) == join(left, right)


def test_structs_join_member_by_member_and_what_is_not_in_both_is_optional() -> None:
    other = Struct((Field("y", Kind.LONG), Field("z", POINT, required=True)))

    joined, clashes = join(POINT, other)

    expected = Struct((Field("x", Kind.LONG), Field("y", Kind.DOUBLE), Field("z", POINT)))
    assert (expected, []) == (joined, clashes)


def test_a_clash_keeps_the_left_side_and_says_where() -> None:
    left = Struct((Field("l", List(Struct((Field("m", Map(Kind.STRING, Kind.INT)),)))),))
    right = Struct((Field("l", List(Struct((Field("m", Map(Kind.STRING, Kind.DATE)),)))),))

    assert (left, [Clash("l[].m{}", Kind.INT, Kind.DATE)]) == join(left, right)
    assert (Decimal(5, 2), [Clash("", Decimal(5, 2), Decimal(5, 1))]) == join(
        Decimal(5, 2), Decimal(5, 1)
    )


def test_what_has_no_type_yet_gives_way_on_a_clash() -> None:
    for nothing in (Struct(()), List(Kind.UNKNOWN), Struct((Field("x", Kind.UNKNOWN),))):
        clash = Clash("", Kind.STRING, nothing)
        assert (Kind.STRING, [clash]) == join(nothing, Kind.STRING) == join(Kind.STRING, nothing)


def test_maps_of_different_keys_are_joined_by_nothing() -> None:
    left, right = Map(Kind.STRING, Kind.INT), Map(Kind.INT, Kind.INT)

    assert (left, [Clash("", left, right)]) == join(left, right)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda type_, required: Struct((Field("a", type_, required),)),
        List,
        lambda type_, required: Map(Kind.STRING, type_, required),
    ],
)
def test_a_member_is_required_where_both_sides_require_it(
    make: Callable[[Type, bool], Type], left: bool, right: bool
) -> None:
    joined, _ = join(make(Kind.INT, left), make(Kind.LONG, right))

    assert make(Kind.LONG, left and right) == joined


def test_what_is_not_said_to_be_required_is_optional() -> None:
    assert not Field("a", Kind.INT).required
    assert not List(Kind.INT).element_required
    assert not Map(Kind.STRING, Kind.INT).value_required


def test_what_has_a_type_is_kept_as_it_is() -> None:
    required = List(Map(Kind.STRING, POINT, value_required=True), element_required=True)
    schema = Struct((Field("l", required, required=True), Field("m", Map(Kind.UUID, Kind.INT))))

    assert schema == known(schema)


def test_the_text_of_a_schema_says_all_of_it() -> None:
    schema = Struct((*POINT.fields, Field("m", Map(Kind.STRING, List(Fixed(2))))))

    expected = "struct<x: long not null, y: double, m: map<string, list<fixed[2]>>>"
    assert expected == str(schema)


def test_what_has_no_type_yet_is_left_out_at_any_depth() -> None:
    schema = Struct(
        (
            Field("n", Kind.UNKNOWN),
            Field("e", Struct(())),
            Field("l", List(Struct((Field("n", Kind.UNKNOWN),)))),
            Field("m", Map(Kind.STRING, Kind.UNKNOWN)),
            Field("o", Struct((Field("x", Kind.LONG), Field("n", Kind.UNKNOWN)))),
        )
    )

    assert Struct((Field("o", Struct((Field("x", Kind.LONG),))),)) == known(schema)


@pytest.mark.parametrize(
    "type_",
    [
        Kind.UNKNOWN,
        Fixed(3),
        POINT,
        List(POINT, element_required=True),
        Map(Kind.STRING, POINT, value_required=True),
    ],
)
def test_the_json_of_a_type_reads_back(type_: Type) -> None:
    assert type_ == type_from_json(type_to_json(type_))


def test_a_schema_is_a_struct() -> None:
    assert POINT == schema_from_json(type_to_json(POINT))
    with pytest.raises(ValueError, match="a schema is a struct"):
        schema_from_json("long")
    with pytest.raises(ValueError, match="not a type"):
        type_from_json({"list": "long"})


def test_hints_replace_types_by_dotted_path_and_keep_the_rest() -> None:
    schema = Struct((Field("p", POINT), Field("q", Kind.STRING, required=True)))

    hinted = with_hints(schema, {"p.x": Kind.INT, "q": Kind.DATE, "absent": Kind.DATE})

    inner = Struct((Field("x", Kind.INT, required=True), Field("y", Kind.DOUBLE)))
    assert Struct((Field("p", inner), Field("q", Kind.DATE, required=True))) == hinted


def test_hints_reach_into_lists_and_maps_by_the_paths_of_refusals() -> None:
    def schema(inner: Type) -> Struct:
        point = Struct((Field("x", inner),))
        return Struct(
            (
                Field("all", List(point, element_required=True)),
                Field("by", Map(Kind.STRING, List(point))),
                Field("whole", List(point)),
            )
        )

    hints = {"all[].x": Kind.DATE, "by{}[].x": Kind.DATE, "whole[].x": Kind.DATE}

    assert schema(Kind.DATE) == with_hints(schema(Kind.STRING), hints)
    whole = with_hints(schema(Kind.STRING), {**hints, "whole": List(Kind.LONG)})
    assert Field("whole", List(Kind.LONG)) == whole.fields[-1]


def test_united_schemas_have_no_members_that_differ_in_case_only() -> None:
    def inner(name: str) -> Struct:
        return Struct((Field(name, Kind.LONG),))

    first = Struct((Field("Id", Kind.LONG, required=True), Field("at", inner("Zone"))))
    second = Struct(
        (
            Field("ID", Kind.STRING),
            Field("at", inner("zone")),
            Field("all", List(inner("A"))),
            Field("by", Map(Kind.STRING, inner("A"))),
        )
    )
    third = Struct((Field("all", List(inner("a"))), Field("by", Map(Kind.STRING, inner("a")))))

    both = united([first, second, third])

    wanted = (
        Field("Id", Kind.LONG),
        Field("at", inner("Zone")),
        Field("all", List(inner("A"))),
        Field("by", Map(Kind.STRING, inner("A"))),
    )
    assert Struct(wanted) == both
    assert first == united([first, first])


def test_a_table_that_has_both_spellings_keeps_them() -> None:
    table = Struct((Field("a", Kind.LONG), Field("A", Kind.STRING)))
    wider = Struct((*table.fields, Field("b", Kind.LONG)))

    assert wider == united([table, wider])
    assert wider == united([wider, table])


@pytest.mark.parametrize("nothing", [Kind.UNKNOWN, Struct(()), List(Kind.UNKNOWN)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_spelling_that_has_a_type_goes_before_one_that_has_none(nothing, turned) -> None:
    def around(name: str, type_: Type) -> Struct:
        here = Struct((Field(name, type_),))
        return Struct((Field(name, type_), Field("in", here), Field("all", List(here))))

    seen = [around("Colour", nothing), around("colour", Kind.STRING), around("Colour", Kind.LONG)]
    if turned:
        seen[:2] = seen[1::-1]

    fields = {field.name: field.type for field in known(united(seen)).fields}
    assert fields == {field.name: field.type for field in around("colour", Kind.STRING).fields}
