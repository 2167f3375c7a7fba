"""Joins schemas that are seen in several places, in part, or together with declared types.

Invariant: `join` never narrows: each value that fits one side fits the join, or the clash is
reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from penstock.core.names import folded
from penstock.core.schema import Decimal, Kind, Schema, Struct, Type
from penstock.core.schema_walk import merge, transform, walk, within


@dataclass(frozen=True, slots=True)
class Clash:
    """Report two types that no lossless join covers, and which was kept."""

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
    """Return the smallest type both sides fit in; on a clash, which is reported, the left side, or
    the right one where only that has a type yet: an empty object or list says little.
    """
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
            case _ if is_known(kept) or not is_known(other):
                clashes.append(Clash(path, kept, other))
                return kept
            case _:
                clashes.append(Clash(path, other, kept))
                return other

    return merge(left, right, resolve), clashes


def united(schemas: Iterable[Schema]) -> Schema:
    """Join what was seen in several places, in order. No two members differ in case only, because
    many engines cannot distinguish them. The first counts, there and where types clash; but one
    with a type goes before one that has none yet.
    """
    found, *others = schemas
    for each in others:
        both, _ = join(
            _without_twins(found, each, is_first=True), _without_twins(each, found, is_first=False)
        )
        assert isinstance(both, Struct), "structs join to a struct"
        found = both
    return found


def _without_twins(type_: Type, other: Type, *, is_first: bool) -> Type:
    """Leave out members that `other` has under a name of other case, and that go first."""
    if type(type_) is not type(other):
        return type_
    theirs = dict(within(other))
    if isinstance(type_, Struct):
        twins = {folded(name): is_known(inner) for name, inner in theirs.items()}
        kept = (
            field
            for field in type_.fields
            if field.name in theirs
            or _goes_first(
                field.type, twin_is_known=twins.get(folded(field.name)), is_first=is_first
            )
        )
        type_ = Struct(tuple(kept))

    def deeper(inner: Type, path: str) -> Type:
        return _without_twins(inner, theirs[path], is_first=is_first) if path in theirs else inner

    return transform(type_, deeper)


def _goes_first(type_: Type, *, twin_is_known: bool | None, is_first: bool) -> bool:
    if twin_is_known is None:
        return True
    here = is_known(type_)
    return here > twin_is_known or (is_first and here == twin_is_known)


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
