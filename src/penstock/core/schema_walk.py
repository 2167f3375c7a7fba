"""One walk over type trees, for all code that reads a schema, changes it or merges two.

Paths name what is within a type as hints and rejects do: `customer.id`, `items[].id` within a list,
`prices{}` for the values of a map. Keys of maps have no path and are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from penstock.core.schema import Field, List, Map, Struct, Type

Nothing = TypeVar("Nothing", bound=None)
"""None where a change leaves something out, and no type at all where it never does."""
Resolve = Callable[[Type, Type, str], Type]


def within(type_: Type, path: str = "") -> Iterator[tuple[str, Type]]:
    """Yield the types directly within a type, each with its path."""
    match type_:
        case Struct(fields):
            yield from ((member(path, field.name), field.type) for field in fields)
        case List(element):
            yield f"{path}[]", element
        case Map(_, value):
            yield f"{path}{{}}", value
        case _:
            return


def walk(type_: Type, path: str = "") -> Iterator[tuple[str, Type]]:
    """Yield a type and all types within it, outermost first, each with its path."""
    yield path, type_
    for below, inner in within(type_, path):
        yield from walk(inner, below)


def leaves(type_: Type) -> Iterator[Type]:
    """Yield the scalars that a type is made of, in order, keys of maps among them."""
    match type_:
        case Struct() | List() | Map():
            if isinstance(type_, Map):
                yield from leaves(type_.key)
            for _, inner in within(type_):
                yield from leaves(inner)
        case _:
            yield type_


def transform(
    type_: Type, change: Callable[[Type, str], Type | Nothing], path: str = ""
) -> Type | Nothing:
    """Return a type with `change` applied to each type directly within it.

    Where `change` returns None, a member is left out, and a list or map as a whole. It descends by
    calling `transform` itself, so that it decides what is changed on the way down or up.
    """
    match type_:
        case Struct(fields):
            found = ((each, change(each.type, member(path, each.name))) for each in fields)
            return Struct(
                tuple(Field(old.name, new, old.required) for old, new in found if new is not None)
            )
        case List(element, required):
            inner = change(element, f"{path}[]")
            return inner if inner is None else List(inner, required)
        case Map(key, value, required):
            inner = change(value, f"{path}{{}}")
            return inner if inner is None else Map(key, inner, required)
        case _:
            return type_


def merge(left: Type, right: Type, resolve: Resolve, path: str = "") -> Type:
    """Return a type with the members of both, the left ones first.

    `resolve` decides wherever the two are not both structs, lists, or maps with equal keys. What is
    required in both stays so.
    """
    if left == right:
        return left
    match left, right:
        case Struct(), Struct():
            return _merge_structs(left, right, resolve, path)
        case List(), List():
            element = merge(left.element, right.element, resolve, f"{path}[]")
            return List(element, left.element_required and right.element_required)
        case Map(), Map() if left.key == right.key:
            value = merge(left.value, right.value, resolve, f"{path}{{}}")
            return Map(left.key, value, left.value_required and right.value_required)
        case _:
            return resolve(left, right, path)


def _merge_structs(left: Struct, right: Struct, resolve: Resolve, path: str) -> Struct:
    fields = []
    theirs = {field.name: field for field in right.fields}
    for field in left.fields:
        other = theirs.pop(field.name, None)
        if other is None:
            fields.append(Field(field.name, field.type))
            continue
        both = merge(field.type, other.type, resolve, member(path, field.name))
        fields.append(Field(field.name, both, field.required and other.required))
    return Struct((*fields, *(Field(each.name, each.type) for each in theirs.values())))


def member(path: str, name: str) -> str:
    """Return the path of a struct's member."""
    return f"{path}.{name}" if path else name
