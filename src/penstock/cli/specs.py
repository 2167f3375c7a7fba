"""How commands read their spec."""

from __future__ import annotations

from pathlib import Path

from penstock.cli.output import say, talk_width
from penstock.spec.load import load_with_warnings
from penstock.spec.model import Pipeline
from penstock.spec.problems import render


def load_spec(path: Path) -> Pipeline:
    """Load a spec and say what is worth a word about it. Raises SpecError."""
    loaded = load_with_warnings(path)
    if loaded.warnings:
        say(render(loaded.warnings, width=talk_width()))
    return loaded.pipeline
