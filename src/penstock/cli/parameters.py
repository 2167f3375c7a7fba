"""The parameters that several commands take, each with its help, and commands in groups.

Invariant: a parameter means the same in every command; where a command says more about one, it
wraps it: `Annotated[Json, Parameter(help=...)]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

SPEC = Path("penstock.yaml")
SPEC_VARIABLE = "PENSTOCK_SPEC"

Spec = Annotated[Path, Parameter(env_var=SPEC_VARIABLE, help="The spec of the pipeline.")]
Json = Annotated[bool, Parameter(help="Print JSON.")]

Table = Annotated[str, Parameter(help="The table, by its name in the spec.")]
QuarantinedTable = Annotated[
    str, Parameter(help="The table or route that the records were meant for, as in the spec.")
]
Codes = Annotated[
    tuple[str, ...], Parameter(help="Only records rejected with this code; repeat for more codes.")
]
At = Annotated[str | None, Parameter(help="One record, as topic:partition:offset.")]
Yes = Annotated[
    str | None, Parameter(help="The pipeline's name: confirms the change without a prompt.")
]

MetricsAt = Annotated[
    str | None,
    Parameter(
        env_var="PENSTOCK_METRICS",
        help="Serve Prometheus metrics at host:port, such as 127.0.0.1:9464.",
    ),
]

PageAt = Annotated[
    str | None,
    Parameter(
        env_var="PENSTOCK_PAGE",
        help="Serve a page for a browser on this machine, such as 127.0.0.1:8090.",
    ),
]

Takeover = Annotated[bool, Parameter(help="Take over from another owner, even if it is alive.")]
Accept = Annotated[
    tuple[Literal["gap", "topic", "rules"], ...],
    Parameter(help="A decision that a run with exit code 4 asked for: gap, topic or rules."),
]
OfPublishing = Literal["gap", "ledger", "tail", "target"]
AcceptFound = Annotated[
    tuple[OfPublishing, ...],
    Parameter(help="A decision that a start with exit code 4 asked for."),
]
AcceptAny = Annotated[
    tuple[Literal["gap", "topic", "rules", "ledger", "tail", "target"], ...],
    Parameter(help="A decision that a run, or a publication's start, with exit code 4 asked for."),
]
Directory = Annotated[
    Path | None,
    Parameter(help="Folder of the broker's data and log; default: the broker of this folder."),
]


def _worth_showing(default: object) -> str | None:
    """Return a default as help shows it, or None where it means "nothing"."""
    return None if default in (False, None, ()) else str(default)


DEFAULTS = Parameter(negative=(), show_default=_worth_showing)


def command_group(name: str, about: str, commands: Mapping[str, Callable[..., int]]) -> App:
    """Return a command that has commands of its own."""
    group = App(name=name, help=about, help_format="plaintext", default_parameter=DEFAULTS)
    for each, command in commands.items():
        named = App(name=each)  # unnamed, its help would show the running program's name
        named.default(command)
        group.command(named)
    return group
