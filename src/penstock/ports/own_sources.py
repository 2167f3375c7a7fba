"""What a person writes to publish from anything: an API, a device, a system without a connector.

Invariants:
- a position is plain data: a flat object of strings, whole numbers of 64 bits, true, false, null;
- rows and the position behind them are of one reading; what a process had read when it died is
  never seen, and what is read then may be other rows, from the same position on;
- a source says whether it gives the rows between two positions again.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from penstock.core.positions import Scalar
from penstock.ports.sources import BadRow

Replay = Literal["range", "resume"]
"""range: the rows between two positions are always the same, and `until` is honoured.

resume: reading goes on at any position; what it gives may be other rows each time.
"""
Boundary = Literal["commit", "abort"]
"""commit: a transaction ends behind the batch.

abort: what came since the last boundary, with this batch, is taken back: it is not published, and
the position moves over it. Where nothing came, nothing is done.
"""
Place = Mapping[str, Scalar]
"""A part of a source, or a position in it, as plain data."""


class PositionGoneError(Exception):
    """What a source raises that cannot go on from a position: what was there is gone."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows in their order, and the position behind them: from there the next batch is read.

    A batch is published in one transaction. `bad` is what could not be read as a row; it goes into
    the topic for rejects. `boundary` is what a source with boundaries says of transactions.
    """

    rows: pa.RecordBatch | pa.Table | Sequence[Mapping[str, Any]]
    next: Place
    bad: Sequence[BadRow] = ()
    boundary: Boundary | None = None


class OwnSource:
    """A source of one's own: `read` is what it has to have; the rest has defaults.

    Its constructor gets the options of the spec as arguments, in the driver and in each worker.
    With `boundaries` its batches say where transactions end: `transaction: { boundary: connector }`
    needs it.
    """

    replay: Replay = "resume"
    boundaries: bool = False

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterable[Batch]:
        """Yield what is behind a position, in order, until there is no more for now.

        `at` is None at the beginning. A source of ranges ends at `until`, where one is given, which
        is the position of one of its batches or its end; another may pass over it. Raises
        PositionGoneError; anything else that it raises is tried again.
        """
        raise NotImplementedError

    def parts(self) -> Iterable[Place]:
        """Return the parts that have positions of their own, in the order of reading."""
        return ({"part": "all"},)

    def end(self, part: Place) -> Place | None:
        """Return the position where a part ends now; None where it cannot be told."""
        del part
        return None

    def gone(self, part: Place, at: Place) -> str:
        """Say what is lost with a part that `parts` no longer has; "" where nothing is."""
        del part, at
        return ""

    def columns(self) -> pa.Schema | None:
        """Return the columns of its rows; None where each batch says its own."""
        return None

    def close(self) -> None:
        """Let go of connections."""


class FunctionSource(OwnSource):
    """A function of a position as a source with one part."""

    def __init__(
        self,
        function: Callable[..., Iterable[Batch]],
        replay: Replay,
        columns: pa.Schema | None,
        *,
        boundaries: bool = False,
    ) -> None:
        self._function, self.replay, self._columns = function, replay, columns
        self.boundaries = boundaries

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterable[Batch]:
        """Call the function."""
        del part
        return self._function(at, until) if self.replay == "range" else self._function(at)

    def columns(self) -> pa.Schema | None:
        """Return what the decorator was given."""
        return self._columns


def source(
    *, replay: Replay = "resume", columns: pa.Schema | None = None, boundaries: bool = False
) -> Callable[[Callable[..., Iterable[Batch]]], Callable[..., OwnSource]]:
    """Make a source of a function: it gets the position, and with `replay="range"` its end.

    Options of the spec are its further arguments. The decorated function opens the source. With
    `boundaries` its batches say where transactions end.
    """

    def decorated(function: Callable[..., Iterable[Batch]]) -> Callable[..., OwnSource]:
        places = (None, None) if replay == "range" else (None,)

        @functools.wraps(function)
        def opened(**options: Any) -> OwnSource:
            inspect.signature(function).bind(*places, **options)
            bound = functools.partial(function, **options)
            return FunctionSource(bound, replay, columns, boundaries=boundaries)

        return opened

    return decorated
