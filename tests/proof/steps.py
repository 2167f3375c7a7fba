"""The steps of a counterexample, as they are kept and played: which actor does what, to what.

    {"action": "Turn", "life": 1, "chain": 2, "request": [1, 1]}

A kept trace is tests/proof/traces/NAME.jsonl, one step a line, without the fields that are empty;
`make prove` writes it (tlc_output.py), playing.py plays it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TRACES = Path(__file__).resolve().parent / "traces"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: the action's name, the life that takes it (0: none), and what it does.

    Tables, chains and stores are numbered from 1 as in the model, the quarantine last.
    """

    action: str
    life: int = 0
    chain: int = 0
    """Of the request that is sent."""
    request: tuple[int, ...] = ()
    """Life and attempt of the request that is sent or arrives."""
    settled: int = 0
    """Rows of a pending store that are settled."""
    tables: tuple[int, ...] = ()
    """Tables that change."""
    end: int | None = None
    """Where the records end that the life is shown."""
    offsets: tuple[int, ...] = ()
    """First offset of a replay, and the one after its last."""
    rows: int | None = None
    """Rows of the table after a rollback."""
    leaving: tuple[int, ...] = ()
    returning: tuple[int, ...] = ()
    stores: tuple[int, ...] = ()
    """Pending stores that are lost."""
    pending: int | None = None
    """Place, among all that is pending, of the commit whose files are removed."""
    starts: tuple[int, ...] | None = None
    """Start positions by source, when they change."""
    low: tuple[int, ...] | None = None
    """Log starts by source, when they change."""


_FIELDS = {field.name: field.default for field in dataclasses.fields(Step)}


def trace_path(name: str) -> Path:
    """Return where the counterexample of a mutant is kept."""
    return TRACES / f"{name.replace(' ', '-')}.jsonl"


def read_trace(name: str) -> list[Step]:
    """Return the kept steps of a mutant's counterexample."""
    return [_step(line) for line in trace_path(name).read_text().splitlines()]


def write_trace(name: str, steps: Sequence[Step]) -> None:
    """Keep the steps of a mutant's counterexample."""
    TRACES.mkdir(exist_ok=True)
    trace_path(name).write_text("".join(f"{_line(step)}\n" for step in steps))


def _line(step: Step) -> str:
    given = {name: getattr(step, name) for name in _FIELDS}
    return json.dumps({name: value for name, value in given.items() if value != _FIELDS[name]})


def _step(line: str) -> Step:
    given = json.loads(line)
    return Step(**{n: tuple(v) if isinstance(v, list) else v for n, v in given.items()})
