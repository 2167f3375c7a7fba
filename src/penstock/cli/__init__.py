"""The commands: parse, call the app, print. Data goes to stdout, messages to stderr.

Invariants: importing this module imports no heavy library, so `--version` and `--help` are quick;
an error ends with its exit code, its message and the next command; only a bug prints a traceback.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.core.version import __version__

if TYPE_CHECKING:
    from cyclopts import App

YOUNG_OBJECTS_MAX = 50_000

COMMANDS = {
    "init": ("penstock.cli.init:init", "Write a spec from topics or another system's settings."),
    "validate": ("penstock.cli.validate:validate", "Check a spec and everything it names."),
    "plan": ("penstock.cli.plan:plan", "Show what a run would do, and why. Writes nothing."),
    "peek": ("penstock.cli.peek:peek", "Trace single records from bytes to row. Writes nothing."),
    "test": ("penstock.cli.cases:try_cases", "Test a spec on example records, without Kafka."),
    "run": ("penstock.cli.run:run", "Land records until you stop it."),
    "publish": (
        "penstock.cli.publish:publish",
        "Publish sources into Kafka until you stop it.",
    ),
    "status": ("penstock.cli.status:status", "Show the state of each table."),
    "ui": ("penstock.cli.ui:ui", "Show pipelines as a page in a browser. Read-only."),
    "members": ("penstock.cli.members:members", "Show who owns a pipeline and who stands by."),
    "handover": ("penstock.cli.members:handover", "Let a stand-by take over from the owner."),
    "audit": ("penstock.cli.audit:audit", "Prove that no record is lost or duplicated."),
    "transactions": (
        "penstock.cli.transactions:transactions",
        "List open and hanging transactions of Kafka; abort one.",
    ),
    "replay": (
        "penstock.cli.replay:replay",
        "Re-ingest an offset range and replace its rows in one commit.",
    ),
    "load": (
        "penstock.cli.load:load",
        "Land partitions or a table again in place of what stands there.",
    ),
    "seek": ("penstock.cli.seek:seek", "Move a table's progress back to where its rows end."),
    "purge": ("penstock.cli.purge:purge", "Remove the rows of keys that were deleted long ago."),
    "maintain": (
        "penstock.cli.maintain:maintain",
        "Show what small files and deleted rows cost, and what would mend it.",
    ),
    "pause": ("penstock.cli.pause:pause", "Commit nothing to a table while another writer works."),
    "resume": ("penstock.cli.pause:resume", "End the pause of a table."),
    "doctor": ("penstock.cli.doctor:doctor", "Check that everything a run needs is in place."),
    "upgrade-check": (
        "penstock.cli.upgrade_check:upgrade_check",
        "Check what a new release changes. Writes nothing.",
    ),
    "prepare": (
        "penstock.cli.prepare:prepare",
        "Cache JVM classes so that Spark starts in half the time.",
    ),
    "quarantine": ("penstock.cli.quarantine:app", "List, retry or drop rejected records."),
    "schema": ("penstock.cli.validate:schema", "Print the JSON Schema of a spec."),
    "explain": ("penstock.cli.explain:explain", "Explain an error code. Needs no network."),
    "completion": ("penstock.cli.completion:completion", "Print a shell completion script."),
    "demo": ("penstock.cli.demo:demo", "Run the demo: a broker, real data, a crash, an audit."),
    "dev": ("penstock.cli.dev:app", "Run a real Kafka broker on this machine."),
}

NAMING = frozenset(
    {
        *("audit", "handover", "load", "maintain", "members", "pause", "peek", "publish", "purge"),
        *("quarantine", "replay", "resume", "seek"),
    }
)
"""Commands with names of tables and topics as arguments."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"penstock {__version__}")  # noqa: T201  the quickest answer
        return
    # Imports make 300,000 objects that live to the end: to walk them for every 700 new ones takes a
    # quarter of a short command's time.
    gc.set_threshold(YOUNG_OBJECTS_MAX, 10, 10)
    from penstock.cli.output import guarded

    if set(words[:1]) & NAMING:
        from penstock.cli.specs import with_spec_named

        words = with_spec_named(words)
    app = application(words[0] if words else "")
    sys.exit(guarded(lambda: app(words, exit_on_error=False, print_error=True), words))


def console() -> None:
    """Run a command as this process, and exit before Python tears its interpreter down.

    Threads of native libraries may still call into Python; during teardown they would abort the
    process, and its exit code would be lost (docs/design/0229).
    """
    code = 1

    def leave() -> None:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    atexit.register(leave)  # registered first, so called last, after all threads have ended
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1


def application(chosen: str) -> App:
    """Return the application; only the chosen command is imported, to show its own help."""
    from cyclopts import App

    from penstock.cli.parameters import DEFAULTS

    app = App(
        name="penstock",
        help="Land Kafka topics in Iceberg and Delta Lake tables, exactly once.\n\n"
        "The spec is the YAML file given as an argument or with --spec; else PENSTOCK_SPEC; else "
        "penstock.yaml.\n\n"
        "Example: penstock run penstock.yaml --until-caught-up",
        version=__version__,
        # Markdown takes as long to load as all else together, and the front page has none.
        help_format="markdown" if chosen in COMMANDS else "plaintext",
        default_parameter=DEFAULTS,
    )
    for name, (path, summary) in COMMANDS.items():
        app.command(path, name=name, help=None if name == chosen else summary)
    return app
