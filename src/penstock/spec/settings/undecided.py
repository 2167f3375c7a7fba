"""What a person has to decide before a spec holds, as `penstock init --from-config` leaves it.

Invariant: a spec with an entry is refused (P175) at that entry, whatever else is right in it: what
another system did and this spec does not is decided by nobody in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import Field

from penstock.spec.problems import Problem, shown
from penstock.spec.settings.fields import FreeText, Setting, Text


class Undecided(Setting):
    """One thing to decide: write what you decide into the spec, then remove the entry."""

    option: Text = Field(
        description="The option or statement of the other system.",
        examples=["consumer.override.auto.offset.reset"],
    )
    value: FreeText = Field(
        "", description="What the other system had there; never a secret.", examples=["latest"]
    )
    decide: Text = Field(
        description="What to decide, and where to write it.",
        examples=["where to begin: kafka.start"],
    )


def problems_of(undecided: Iterable[Undecided]) -> Iterator[Problem]:
    """Name each entry as an error, at its place."""
    for index, each in enumerate(undecided):
        given = f" = {shown(each.value)}" if each.value else ""
        fact = f"{shown(each.option)}{given} is not decided: {each.decide}"
        hint = "write your decision into the spec, then remove this entry"
        yield Problem(("undecided", index), "P175", fact, hint)
