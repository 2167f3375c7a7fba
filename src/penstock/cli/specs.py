"""How every command is told of its spec, and reads it.

One rule for all: the file that a command names, as a word of its own or with `--spec`; else the one
that `PENSTOCK_SPEC` names; else `penstock.yaml` in the working folder. Where the words of a command
are names of tables or topics, one that ends in `.yaml` or `.yml` is the spec.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.hints import name_spec

if TYPE_CHECKING:
    from penstock.spec.model import Pipeline

SPEC = Path("penstock.yaml")
SPEC_VARIABLE = "PENSTOCK_SPEC"
ENDINGS = (".yaml", ".yml")

Spec = Annotated[Path, Parameter(env_var=SPEC_VARIABLE)]


def with_spec_named(words: Sequence[str]) -> list[str]:
    """Return the words of a command that takes names with the spec among them behind `--spec`.

    Where `--spec` names one already, all other words are names.
    """
    given = [*words]
    if any(each.partition("=")[0] == "--spec" for each in given):
        return given
    place = next((n for n, each in enumerate(given) if each.endswith(ENDINGS)), None)
    if place is None:
        return given
    return [*given[:place], *given[place + 1 :], "--spec", given[place]]


def named_again(path: Path) -> str:
    """Return the words that name a spec in another command; "" where it is found without."""
    if path.absolute() == Path(os.environ.get(SPEC_VARIABLE) or SPEC).absolute():
        return ""
    named = quote(str(path))
    return named if path.name.endswith(ENDINGS) else f"--spec {named}"


def load_spec(path: Path) -> Pipeline:
    """Load a spec and say what is worth a word about it; hints name it from here on.

    Raises SpecError.
    """
    from penstock.cli.output import say, talk_width
    from penstock.spec.load import load_with_warnings
    from penstock.spec.problems import render

    name_spec(named_again(path))
    loaded = load_with_warnings(path)
    if loaded.warnings:
        say(render(loaded.warnings, width=talk_width()))
    return loaded.pipeline
