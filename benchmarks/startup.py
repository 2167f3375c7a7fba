"""How quickly a command answers: `--version` and `--help`, in processes of their own."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Measured
from benchmarks.scratch import Scratch


@dataclass(frozen=True, slots=True)
class Options:
    """How often each is asked."""

    rounds: int = 21


def measure(options: Options, place: Scratch) -> Measured:
    """Ask over and over; give the medians, of the clock and of the CPU."""
    del place  # no broker, no table
    raw: dict[str, list[float]] = {}
    values: dict[str, float] = {}
    for name in ("version", "help"):
        rounds = [_asked(f"--{name}") for _ in range(options.rounds)]
        raw[f"{name}_seconds"] = [round(seconds, 3) for seconds, _ in rounds]
        values[f"{name}_seconds"] = statistics.median(seconds for seconds, _ in rounds)
        values[f"{name}_cpu_seconds"] = statistics.median(cpu for _, cpu in rounds)
    return Measured(values, raw)


def _asked(option: str) -> tuple[float, float]:
    script = Path(sys.executable).with_name("penstock")
    before, began = os.times(), time.monotonic()
    subprocess.run([script, option], check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.monotonic() - began, os.times()
    cpu = after.children_user + after.children_system
    return seconds, cpu - before.children_user - before.children_system
