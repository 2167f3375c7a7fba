"""One walk over types: paths, leaves, changes on the way, two types merged."""

from __future__ import annotations

from penstock.core.schema import Field, Kind, List, Map, Struct, Type
from penstock.core.schema_walk import leaves, merge, transform, walk, within

ITEM = Struct((Field("sku", Kind.STRING, required=True), Field("n", Kind.INT)))
ORDER = Struct(
    (
        Field("id", Kind.LONG, required=True),
        Field("items", List(ITEM, element_required=True)),
        Field("prices", Map(Kind.UUID, Kind.DOUBLE)),
    )
)


def test_what_is_within_has_the_path_of_hints() -> None:
    assert ["id", "items", "prices"] == [path for path, _ in within(ORDER)]
    assert [("a.items[]", ITEM)] == list(within(List(ITEM), "a.items"))
    assert [] == list(within(Kind.LONG, "id"))


def test_a_walk_comes_to_each_type_once_the_outermost_first() -> None:
    paths = [path for path, _ in walk(ORDER)]

    assert ["", "id", "items", "items[]", "items[].sku", "items[].n", "prices", "prices{}"] == paths


def test_keys_of_maps_are_leaves_and_come_before_the_values() -> None:
    assert [Kind.LONG, Kind.STRING, Kind.INT, Kind.UUID, Kind.DOUBLE] == list(leaves(ORDER))
    assert [] == list(leaves(Struct(())))


def test_a_change_keeps_names_keys_and_what_is_required() -> None:
    def wider(type_: Type, path: str = "") -> Type:
        return Kind.LONG if type_ is Kind.INT else transform(type_, wider, path)

    items = List(
        Struct((Field("sku", Kind.STRING, required=True), Field("n", Kind.LONG))),
        element_required=True,
    )
    assert Struct((ORDER.fields[0], Field("items", items), ORDER.fields[2])) == wider(ORDER)


def test_a_change_is_given_the_path() -> None:
    seen = []

    def note(type_: Type, path: str) -> Type:
        seen.append(path)
        return transform(type_, note, path)

    transform(ORDER, note)
    assert [path for path, _ in walk(ORDER)][1:] == seen


def test_what_a_change_leaves_out_takes_lists_and_maps_with_it() -> None:
    def without_numbers(type_: Type, path: str = "") -> Type | None:
        return None if type_ in (Kind.INT, Kind.DOUBLE) else transform(type_, without_numbers, path)

    items = List(Struct((ITEM.fields[0],)), element_required=True)
    assert Struct((ORDER.fields[0], Field("items", items))) == without_numbers(ORDER)


def test_two_types_are_merged_and_what_differs_is_resolved_at_its_path() -> None:
    other = Struct(
        (
            Field("items", List(Struct((Field("n", Kind.LONG, required=True),)))),
            Field("prices", Map(Kind.UUID, Kind.STRING)),
            Field("note", Kind.STRING, required=True),
        )
    )
    asked = []

    def right(left: Type, right: Type, path: str) -> Type:
        asked.append((path, left, right))
        return right

    expected = Struct(
        (
            Field("id", Kind.LONG),
            Field("items", List(Struct((Field("sku", Kind.STRING), Field("n", Kind.LONG))))),
            Field("prices", Map(Kind.UUID, Kind.STRING)),
            Field("note", Kind.STRING),
        )
    )
    assert expected == merge(ORDER, other, right)
    assert [
        ("items[].n", Kind.INT, Kind.LONG),
        ("prices{}", Kind.DOUBLE, Kind.STRING),
    ] == asked


def test_equal_types_are_merged_without_a_question_and_keep_what_is_required() -> None:
    def never(left: Type, right: Type, path: str) -> Type:
        raise AssertionError(path)

    assert ORDER == merge(ORDER, ORDER, never)
