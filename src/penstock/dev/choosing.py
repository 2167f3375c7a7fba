"""Which broker is meant where no directory is given: that of this folder, wherever its data are.

Invariant: a broker that was started from another folder is never chosen, only listed: it may belong
to somebody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import InvalidError
from penstock.dev.broker import Running, everywhere, status

HOME = Path(".penstock/dev")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The broker that is meant, if one runs; `others` are the directories of those elsewhere."""

    directory: Path
    running: Running | None
    others: Sequence[Path] = ()


def chosen(directory: Path | None) -> Chosen:
    """Return the broker of a directory, or that of this folder where none is named.

    Raises InvalidError (P192) where several were started from this folder, none of them in the
    default directory.
    """
    wanted = directory or HOME
    running = status(wanted)
    if directory is not None or running is not None:
        return Chosen(wanted, running)
    found = sorted(everywhere())
    here = [(place, each) for place, folder, each in found if folder == Path.cwd()]
    if len(here) > 1:
        names = ", ".join(str(place) for place, _ in here)
        raise InvalidError(
            f"several brokers were started from this folder: {names}",
            code="P192",
            hint=f"name one:  penstock dev down --directory {here[0][0]}",
        )
    for place, each in here:
        return Chosen(place, each)
    return Chosen(wanted, None, [place for place, _, _ in found])
