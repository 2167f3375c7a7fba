"""The text of types: what is written reads back, and what is no type is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.schema import (
    LEVELS_MAX,
    Decimal,
    Field,
    Fixed,
    Kind,
    List,
    Map,
    Struct,
    Type,
)
from penstock.core.type_text import is_writable, parse_type

SCALARS = (
    *(kind for kind in Kind if kind is not Kind.UNKNOWN),
    *(Decimal(10, 2), Decimal(1, 0), Decimal(38, 38), Fixed(16)),
)


def _structs(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    names = st.lists(
        st.sampled_from(["sku", "имя", "@type", "a-b", "list", "Größe", "$1"]),
        min_size=1,
        unique_by=str.casefold,
    )
    pairs = names.flatmap(lambda each: st.tuples(*[st.tuples(st.just(n), inner) for n in each]))
    return pairs.map(lambda found: Struct(tuple(Field(name, type_) for name, type_ in found)))


TYPES: st.SearchStrategy[Type] = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(List), st.builds(Map, st.sampled_from(SCALARS), inner), _structs(inner)
    ),
    max_leaves=8,
)


@given(TYPES)
def test_the_text_of_a_type_parses_back(type_: Type) -> None:
    assert is_writable(type_)
    assert type_ == parse_type(str(type_))


@pytest.mark.parametrize("type_", SCALARS)
def test_the_text_of_a_scalar_parses_back(type_: Type) -> None:
    assert type_ == parse_type(str(type_))


def test_white_space_and_case_of_words_do_not_count_but_case_of_names_does() -> None:
    text = " MAP < String ,STRUCT< Sku :LONG , at: Decimal( 9 , 2 ) > >"

    wanted = Struct((Field("Sku", Kind.LONG), Field("at", Decimal(9, 2))))
    assert Map(Kind.STRING, wanted) == parse_type(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "varchar", "unknown", "list<long", "list<longx", "llistlong>", "list<>"),
        *("list<int,int>",),
        *("decimal(39,0)", "decimal(0,0)", "decimal(2,3)", "list<int>>", "list<<int>"),
        *("map<string>", "map<string, int, int>", "map<list<int>, int>", "map<string, >"),
        *("struct<>", "struct<a>", "struct<a: int,>", "struct<a b: int>", "struct<: int>"),
        *("struct<a: int not null>", "struct<a.b: int>", "struct<a: int, A: int>"),
    ],
)
def test_a_text_that_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a type|precision|the same name"):
        parse_type(text)


def test_a_type_is_nested_as_deeply_as_readers_of_tables_go_and_no_deeper() -> None:
    def nested(levels: int) -> str:
        return "list<" * levels + "int" + ">" * levels

    assert nested(LEVELS_MAX) == str(parse_type(nested(LEVELS_MAX)))
    with pytest.raises(ValueError, match="32 levels deep"):
        parse_type(nested(LEVELS_MAX + 1))


@pytest.mark.parametrize("name", ["a:b", "a<b", "a>b", "a[]"])
def test_names_with_signs_of_types_cannot_be_written(name: str) -> None:
    assert not is_writable(List(Struct((Field(name, Kind.INT),))))
