"""Results as they were measured, one JSON object a line, a file for each figure.

Invariants: a line is written once and never changed; it holds all that is needed to measure again
and to know what the figure is worth.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT

QUIET_CORES = 0.15
KEPT = ROOT / "benchmarks" / "results"


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcome of a figure: `values` are the reported numbers, `raw` what they come from."""

    values: dict[str, float]
    raw: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement. `others_cores` is what other programs used of the machine meanwhile, where
    they were looked at (`others_seen`); before, Spark's workers were counted among them.
    """

    figure: str
    command: str
    seconds: float
    others_cores: float
    circumstances: dict[str, Any]
    values: dict[str, float]
    raw: dict[str, Any]
    others_seen: bool = False

    @property
    def busy(self) -> bool:
        """Return whether the machine is known to have been busy with others."""
        return self.others_seen and self.others_cores > QUIET_CORES

    @property
    def others(self) -> str:
        """Return in words what else ran."""
        if not self.others_seen:
            return "use by other programs unknown"
        return f"other programs used {self.others_cores:.2f} cores"


def keep(result: Result, folder: Path) -> Path:
    """Append a result to its figure's file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.figure}.jsonl"
    with path.open("a") as file:
        file.write(json.dumps(asdict(result), separators=(",", ":")) + "\n")
    return path


def kept(figure: str, folder: Path) -> list[Result]:
    """Read a figure's results, oldest first."""
    path = folder / f"{figure}.jsonl"
    if not path.exists():
        return []
    return [Result(**json.loads(line)) for line in path.read_text().splitlines()]


def newest(figure: str, folder: Path) -> dict[str, Result]:
    """Return the newest result of each command of a figure."""
    return {result.command: result for result in kept(figure, folder)}
