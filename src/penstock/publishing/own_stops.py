"""The errors of sources of one's own: what was found, where, and what to do."""

from __future__ import annotations

import traceback

from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.core.positions import Position, SourcePartition

SOURCE_RAISED = "P854"
"""The code of whatever a source raised."""


def place_of(name: str, of: SourcePartition, at: Position) -> str:
    """Say where a source was being read."""
    return f"the source {name}, {of} behind {at}"


def wrong_shape(name: str, fact: str) -> InvalidError:
    """Return the error for what is no source, or does not keep to its port."""
    return InvalidError(
        f"{name} is no source that can be published: {fact}",
        code="P851",
        hint="it is a class with  read,  as penstock.OwnSource has it, or a function under"
        "  @penstock.source()",
    )


def options_refused(name: str, error: TypeError) -> InvalidError:
    """Return the error for a source that does not take the options of the spec."""
    return InvalidError(
        f"{name} is no source that can be published: it does not take its options: {error}",
        code="P851",
        hint="correct  options  in the spec, which are its arguments by name; if it is a function,"
        " it stands under  @penstock.source()",
    )


def position_returns(place: str, to: str) -> InvalidError:
    """Return the error for rows behind which the position is one that was there before."""
    return InvalidError(
        f"{place}: its position goes back to {to}, and its rows would be published again for ever",
        code="P852",
        hint="correct the source, and prove it with  penstock.testing.contracts.own_sources;  then:"
        "  penstock publish",
    )


def says_no_end(name: str) -> InvalidError:
    """Return the error for a source that does not say where transactions end, and has to."""
    return InvalidError(
        f"the source {name} does not say where a transaction ends",
        code="P292",
        hint="give its batches a  boundary  and say  boundaries=True;  or  boundary: interval",
    )


def takes_back(place: str) -> InvalidError:
    """Return the error for rows that are taken back where transactions end without the source."""
    return InvalidError(
        f"{place}: it takes back what it gave, and this publication does not wait for its word",
        code="P293",
        hint="transaction: { boundary: connector }",
    )


def unit_too_large(place: str, rows: int, size: int) -> InvalidError:
    """Return the error for a transaction of a source that is larger than one may be."""
    return InvalidError(
        f"{place}: it has given {rows:,} rows of {size:,} bytes since a transaction ended, and that"
        " is more than one may hold",
        code="P294",
        hint="end transactions sooner;  or raise  transaction: { or_records: …, or_bytes: … }",
    )


def no_rows(place: str, fact: str) -> InvalidError:
    """Return the error for what is neither Arrow nor dicts."""
    return InvalidError(
        f"{place}: it gave what are no rows: {fact}",
        code="P853",
        hint="give Arrow, or dicts whose values have one type for each name;  columns  says types",
    )


def raised(place: str, error: Exception) -> UnavailableError:
    """Return the error for whatever a source raised: it may pass."""
    frames = traceback.extract_tb(error.__traceback__)
    line = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return UnavailableError(
        f"{place}: it raised {type(error).__name__}: {str(error)[:500]}{line}",
        code=SOURCE_RAISED,
        hint="it is tried again; if it does not pass, correct the source, then:  penstock publish",
    )


def position_gone(publication: str, place: str, fact: str) -> DecisionNeededError:
    """Return the error for a source that says that it cannot go on."""
    return DecisionNeededError(
        f"{place}: it cannot go on from there: {fact[:500]}",
        code="P855",
        hint="say where it goes on, at  earliest,  latest,  or a position:"
        f"  penstock seek {publication} latest",
    )
