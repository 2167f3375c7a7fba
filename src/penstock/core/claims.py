"""Claims: the right to commit for a pipeline, and the generation that orders them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

Generation = NewType("Generation", int)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to commit for a pipeline.

    Generations order the claims of one line: those that one pending store assigned, one after the
    other (docs/design/0225). `owner` is `<line>/<run>`; a ledger may have forgotten it ("").
    """

    generation: Generation
    owner: str

    @property
    def line(self) -> str:
        """Name the line of the claim; "" where it is not known."""
        return self.owner.rpartition("/")[0]

    @property
    def run(self) -> str:
        """Name the run that claimed; "" where it is not known."""
        return self.owner.rpartition("/")[2]


def publication_claim(pipeline: str, publication: str) -> str:
    """Return the name that the claim of a publication has in the pending store."""
    return f"{pipeline}/publish/{publication}"


def claimed_publication(claimed_as: str) -> str:
    """Return the publication of a claim by its name there."""
    return claimed_as.rpartition("/")[2]
