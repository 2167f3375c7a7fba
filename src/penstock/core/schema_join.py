"""What becomes of schemas that are seen in several places, in part, or beside declared types.

Invariant: `join` never narrows: each value that fits one side fits the join, or the clash is
reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from penstock.core.names import folded
from penstock.core.schema import Decimal, Field, Kind, List, Map, Schema, Struct, Type
from penstock.core.schema_walk import merge, transform, walk


@dataclass(frozen=True, slots=True)
class Clash:
    """Report two types that no lossless join covers; the left one was kept."""

    path: str
    kept: Type
    refused: Type


_PROMOTIONS = {
    frozenset({Kind.INT, Kind.LONG}): Kind.LONG,
    frozenset({Kind.FLOAT, Kind.DOUBLE}): Kind.DOUBLE,
    frozenset({Kind.INT, Kind.DOUBLE}): Kind.DOUBLE,
    frozenset({Kind.LONG, Kind.DOUBLE}): Kind.DOUBLE,
}


def join(left: Type, right: Type) -> tuple[Type, list[Clash]]:
    """Return the smallest type both sides fit in; on a clash the left side, which is reported."""
    clashes: list[Clash] = []

    def resolve(kept: Type, other: Type, path: str) -> Type:
        match kept, other:
            case _, Kind.UNKNOWN:
                return kept
            case Kind.UNKNOWN, _:
                return other
            case Decimal(), Decimal() if kept.scale == other.scale:
                return Decimal(max(kept.precision, other.precision), kept.scale)
            case Kind(), Kind() if promoted := _PROMOTIONS.get(frozenset({kept, other})):
                return promoted
            case _:
                clashes.append(Clash(path, kept, other))
                return kept

    return merge(left, right, resolve), clashes


def united(schemas: Iterable[Schema]) -> Schema:
    """Join what was seen in several places, in order: no member that differs from another one in
    case only, for many engines cannot tell the two apart. The first counts, there and where types
    clash; but one that has a type yet goes before one that has none.
    """
    found, *others = schemas
    for each in others:
        both, _ = join(
            _without_twins(found, each, is_first=True), _without_twins(each, found, is_first=False)
        )
        assert isinstance(both, Struct), "structs join to a struct"
        found = both
    return found


def _without_twins(type_: Type, beside: Type, *, is_first: bool) -> Type:
    """Leave out members that `beside` has under a name of other case, and that go before."""
    match type_, beside:
        case Struct(), Struct():
            theirs = {field.name: field.type for field in beside.fields}
            twins = {folded(name): is_known(inner) for name, inner in theirs.items()}
            kept = [
                Field(f.name, _deeper(f.type, theirs.get(f.name), is_first=is_first), f.required)
                for f in type_.fields
                if f.name in theirs
                or _goes_before(f.type, twin_is_known=twins.get(folded(f.name)), is_first=is_first)
            ]
            return Struct(tuple(kept))
        case List(), List():
            inner = _deeper(type_.element, beside.element, is_first=is_first)
            return List(inner, type_.element_required)
        case Map(), Map():
            inner = _deeper(type_.value, beside.value, is_first=is_first)
            return Map(type_.key, inner, type_.value_required)
        case _:
            return type_


def _goes_before(type_: Type, *, twin_is_known: bool | None, is_first: bool) -> bool:
    if twin_is_known is None:
        return True
    here = is_known(type_)
    return here > twin_is_known or (is_first and here == twin_is_known)


def _deeper(type_: Type, beside: Type | None, *, is_first: bool) -> Type:
    return type_ if beside is None else _without_twins(type_, beside, is_first=is_first)


def known(schema: Struct) -> Struct:
    """Leave out what has no type yet: null-only columns, empty objects, lists of nothing."""
    found = transform(schema, _known_type)
    assert isinstance(found, Struct), "a struct stays one, if an empty one"
    return found


def is_known(type_: Type) -> bool:
    """Return whether something in it has a type."""
    return _known_type(type_) is not None


def _known_type(type_: Type, _: str = "") -> Type | None:
    if type_ is Kind.UNKNOWN:
        return None
    found = transform(type_, _known_type)
    return None if isinstance(found, Struct) and not found.fields else found


def with_hints(schema: Schema, hints: Mapping[str, Type]) -> Schema:
    """Replace types by declared ones, by path; what is declared wins over what is within."""

    def hinted(type_: Type, path: str) -> Type:
        declared = hints.get(path)
        return transform(type_, hinted, path) if declared is None else declared

    found = transform(schema, hinted)
    assert isinstance(found, Struct), "a struct stays one"
    return found


def paths_in(type_: Type) -> Iterator[str]:
    """Yield the paths by which hints name what is within a type."""
    return (path for path, _ in islice(walk(type_), 1, None))
