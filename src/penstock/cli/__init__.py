"""The commands: parse, call the app, print. stdout is data, stderr is talk.

Invariants: importing this module imports no heavy library, so `--version` and `--help` are quick;
an error ends with its exit code, its sentence and the next command, never with a traceback unless
it is a bug.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock import __version__

if TYPE_CHECKING:
    from cyclopts import App

YOUNG_OBJECTS_MAX = 50_000

COMMANDS = {
    "init": ("penstock.cli.init:init", "Write a spec from topics, or from another system's."),
    "validate": ("penstock.cli.validate:validate", "Check a spec, and what it names."),
    "plan": ("penstock.cli.plan:plan", "Show what a run would do, and why; never writes."),
    "peek": ("penstock.cli.peek:peek", "Follow single records on their way; never writes."),
    "test": ("penstock.cli.cases:try_cases", "Try a spec on cases: records in, rows out."),
    "run": ("penstock.cli.run:run", "Land records, until told to stop."),
    "status": ("penstock.cli.status:status", "Show how each table stands."),
    "audit": ("penstock.cli.audit:audit", "Prove that nothing is lost or doubled."),
    "replay": ("penstock.cli.replay:replay", "Land a stretch of a table again, in one commit."),
    "seek": ("penstock.cli.seek:seek", "Put a table back to where its rows end."),
    "doctor": ("penstock.cli.doctor:doctor", "Look whether all is fit for a run, and what is not."),
    "prepare": ("penstock.cli.prepare:prepare", "Make Spark start in half the time."),
    "quarantine": ("penstock.cli.quarantine:app", "See refused records, and close them."),
    "schema": ("penstock.cli.validate:schema", "Print the JSON Schema of a spec."),
    "explain": ("penstock.cli.explain:explain", "Explain an error code, without a network."),
    "completion": ("penstock.cli.completion:completion", "Let a shell complete commands."),
    "demo": ("penstock.cli.demo:demo", "See it all: broker, real data, a kill, the proof."),
    "dev": ("penstock.cli.dev:app", "A real Kafka broker on this machine, to try things."),
}

NAMING = frozenset({"audit", "peek", "quarantine", "replay", "seek"})
"""Commands whose words are names of tables and topics."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"penstock {__version__}")  # noqa: T201  the quickest answer
        return
    _collect_rarely()
    from penstock.cli.output import guarded

    if set(words[:1]) & NAMING:
        from penstock.cli.specs import with_spec_named

        words = with_spec_named(words)
    app = application(words[0] if words else "")
    sys.exit(guarded(lambda: app(words, exit_on_error=False, print_error=True), words))


def console() -> None:
    """Be the process of a command: run it, exit with its code, and leave the interpreter whole.

    Threads of native libraries may be about to hand something back to Python. Where it is taken
    apart by then, they abort the process, and its exit code is lost (docs/design/0229).
    """
    code = 1

    def leave() -> None:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    atexit.register(leave)  # what is registered first is called last, behind all threads' ends
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1


def _collect_rarely() -> None:
    """Let the garbage collector walk less over what imports made: a quarter of a short command.

    Libraries make 300,000 objects that live to the end: not every 700 new ones are a reason to
    look.
    """
    gc.set_threshold(YOUNG_OBJECTS_MAX, 10, 10)


def application(chosen: str) -> App:
    """Put the commands together. The chosen one tells its own help; the others are not imported."""
    from cyclopts import App, Parameter

    app = App(
        name="penstock",
        help="Land Kafka topics in Iceberg and Delta Lake tables, exactly once.\n\n"
        "The spec is the YAML file that a command names, as a word or with --spec; else that of "
        "PENSTOCK_SPEC; else penstock.yaml.\n\n"
        "Example: penstock run penstock.yaml --until-caught-up",
        version=__version__,
        # Markdown takes as long to load as all else together, and the front page has none.
        help_format="markdown" if chosen in COMMANDS else "plaintext",
        default_parameter=Parameter(negative=(), show_default=_worth_showing),
    )
    for name, (path, summary) in COMMANDS.items():
        app.command(path, name=name, help=None if name == chosen else summary)
    return app


def _worth_showing(default: object) -> str | None:
    """Show a default in a page of help unless it says nothing."""
    return None if default in (False, None, ()) else str(default)
