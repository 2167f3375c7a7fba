"""Commands that are about one shard of a pipeline, or about each of them.

`--shard N` names one, `--shard all` means one after the other, and of a run `--shard any` whichever
is free. A command is given the option by
`by_shard`, and loads the spec by `specs.load_spec`, which returns the shard that is named.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Annotated, Any

from cyclopts import Parameter

from penstock.cli.parameters import SPEC
from penstock.core.errors import InvalidError, PenstockError, gravest

ALL, ANY = "all", "any"
ABOUT = "The shard that it is about, by its number; all: one after the other."
ALONE = (
    "The shard to land, by its number; any: whichever has no living owner, and until there is one"
    " stand by for all of them, with the pending store in PostgreSQL."
)
Command = Callable[..., int]
Words = Mapping[str, Any]
"""What a command is given, by the names of its parameters."""

_named: ContextVar[str] = ContextVar("shard", default="")


def named_shard() -> str:
    """Return the shard that the command in hand names: its number, `all`, or "" for none."""
    return _named.get()


def by_shard(
    *,
    changes: bool = False,
    at_once: bool = False,
    alone: bool = False,
    share: Callable[[int, Words], Words | None] = lambda _, words: words,
) -> Callable[[Command], Command]:
    """Give a command the option `--shard`.

    One that `changes` what is landed begins where no shard runs, and ends at the first that fails.
    One that sees to all shards `at_once` is called once, and one that is about a shard `alone`
    refuses all (InvalidError, P529). Of all of them each is given its `share` of the words; None
    leaves it out.
    """

    def given(command: Command) -> Command:
        own = inspect.signature(command)

        @wraps(command)
        def about(*args: Any, shard: str | None = None, **kwargs: Any) -> int:
            if shard == ALL and alone:
                raise one_at_a_time()
            if shard != ALL or at_once:
                with _naming(shard or ""):
                    return command(*args, **kwargs)
            return _each(command, own.bind(*args, **kwargs), share, changes=changes)

        kind = Annotated[
            str | None, Parameter(env_var="PENSTOCK_SHARD", help=ALONE if alone else ABOUT)
        ]
        option = inspect.Parameter(
            "shard", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind
        )
        parameters = [*own.parameters.values(), option]
        about.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        about.__annotations__ = {**command.__annotations__, "shard": kind}
        return about

    return given


def one_at_a_time() -> PenstockError:
    """Return the error of a command that is about one shard, and was given all of them."""
    return InvalidError(
        "a process lands one shard: all of them in one would fail together",
        code="P529",
        hint="start one process for each, with  penstock run --shard N",
    )


def _each(
    command: Command,
    given: inspect.BoundArguments,
    share: Callable[[int, Words], Words | None],
    *,
    changes: bool,
) -> int:
    """Run a command for one shard after the other; return the gravest exit code.

    Where the pipeline's name confirms a change, it does so for each.
    """
    from penstock.app.shards import require_idle
    from penstock.spec.load import load
    from penstock.spec.model import no_shard

    given.apply_defaults()
    pipeline, codes = load(given.arguments["spec"] or SPEC), list[int]()
    if pipeline.shards == 1:
        raise no_shard(pipeline, ALL)
    if changes:
        require_idle(pipeline)
    asked = dict(given.arguments)
    for number in range(pipeline.shards):
        words = share(number, asked)
        if words is None:
            continue
        given.arguments.update(words)
        if asked.get("yes") == pipeline.name:
            given.arguments["yes"] = pipeline.of_shard(number).name
        with _naming(str(number)):
            codes.append(command(*given.args, **given.kwargs))
        if changes and codes[-1]:
            break
    return gravest(codes)


@contextmanager
def _naming(shard: str) -> Iterator[None]:
    token = _named.set(shard)
    try:
        yield
    finally:
        _named.reset(token)
