"""Which spec a command reads, and how.

One rule for all commands: the file named as an argument or with `--spec`; else the one that
`PENSTOCK_SPEC` names; else `penstock.yaml` in the working folder. Where the arguments of a command
are names of tables or topics, one that ends in `.yaml` or `.yml` is the spec.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from penstock.cli.output import name_spec, say, talk_width
from penstock.cli.parameters import SPEC, SPEC_VARIABLE
from penstock.cli.shards import ALL, named_shard

if TYPE_CHECKING:
    from penstock.spec.model import Pipeline
    from penstock.spec.problems import Problem
    from penstock.spec.publications import Publications

ENDINGS = (".yaml", ".yml")


def with_spec_named(words: Sequence[str]) -> list[str]:
    """Return the arguments of a command that takes names, with the spec moved after `--spec`.

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
    """Return the words that name a spec in another command; "" where it is the default."""
    if path.absolute() == Path(os.environ.get(SPEC_VARIABLE) or SPEC).absolute():
        return ""
    named = quote(str(path))
    return named if path.name.endswith(ENDINGS) else f"--spec {named}"


def load_spec(path: Path, *, any_shard: bool = False) -> Pipeline:
    """Load a spec, or the shard of it that was named, and print its warnings; from here on, hints
    name both. `any_shard`: what is asked is the same for all of them.

    Raises SpecError, InvalidError (P528: no such shard, or none was named).
    """
    pipeline, given = load_whole(path), named_shard()
    if any_shard and not given and pipeline.shards > 1:
        return pipeline.of_shard(0)
    if not given and pipeline.shards == 1:
        return pipeline
    from penstock.spec.model import no_shard

    if not given.isdecimal():
        raise no_shard(pipeline, given)
    name_spec(f"{named_again(path)} --shard {given}".strip())
    return pipeline.of_shard(int(given))


def load_shards(path: Path) -> list[Pipeline]:
    """Load a spec as the shards that were named, all of them perhaps; a whole one is its only one.

    Raises as `load_spec`.
    """
    if named_shard() != ALL:
        return [load_spec(path)]
    pipeline = load_whole(path)
    return [pipeline.of_shard(number) for number in range(pipeline.shards)]


def load_whole(path: Path) -> Pipeline:
    """Load a spec with all of its shards, and print its warnings. Raises SpecError."""
    from penstock.spec.load import load_with_warnings

    name_spec(named_again(path))
    loaded = load_with_warnings(path)
    _warn(loaded.warnings)
    return loaded.pipeline


@dataclass(frozen=True, slots=True)
class Parts:
    """Which parts a spec has; a broken one lands, so that loading it says what is wrong."""

    lands: bool
    publishes: bool


def parts_of(path: Path) -> Parts:
    """Return whether a spec lands, publishes, or both; a misspelt `publish` is meant as one."""
    from penstock.spec.load import blocks_of
    from penstock.spec.problems import nearest

    found = blocks_of(path)
    meant = "tables" not in found and any(nearest(each, ["publish"]) for each in found)
    publishes = "publish" in found or meant
    return Parts("tables" in found or not publishes, publishes)


def load_publications(path: Path) -> Publications:
    """Load the publishing part of a spec and print its warnings; from here on, hints name it.

    Raises SpecError.
    """
    from penstock.spec.load import load_publications_with_warnings

    name_spec(named_again(path))
    loaded = load_publications_with_warnings(path)
    _warn(loaded.warnings)
    return loaded.publications


def _warn(warnings: Sequence[Problem]) -> None:
    from penstock.spec.problems import render

    if warnings:
        say(render(warnings, width=talk_width()))
