"""`penstock dev`: a real Kafka broker on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from penstock.cli.output import print_json, say, tell

if TYPE_CHECKING:
    from penstock.dev.choosing import Chosen

PORT = 9092

app = App(
    name="dev", help="A real Kafka broker on this machine, to try things.", help_format="plaintext"
)


def up(
    *,
    port: int = PORT,
    directory: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Start the broker; the first time its jars are downloaded and checked against their hashes.

    Example: penstock dev up --port 9092

    Parameters
    ----------
    port
        Port to listen on, on the loopback address; 0 picks a free one.
    directory
        Where its data and log are; .penstock/dev when left out.
    json
        Print JSON.
    """
    from penstock.dev.broker import up as start
    from penstock.dev.choosing import HOME

    running = start(directory or HOME, port, progress=_downloaded)
    if json:
        told = {"directory": str(directory or HOME)}
        print_json({"bootstrap": running.bootstrap, "pid": running.pid, **told})
    else:
        where = "" if directory is None else f" --directory {directory}"
        at = f"{running.bootstrap} (pid {running.pid})"
        tell(f"Kafka runs at {at}; stop it: penstock dev down{where}")
    return 0


def down(
    *,
    directory: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Stop the broker; its data stay.

    Example: penstock dev down

    Parameters
    ----------
    directory
        Where its data and log are; when left out, the broker that was started from this folder.
    json
        Print JSON.
    """
    from penstock.dev.broker import down as stop
    from penstock.dev.choosing import chosen

    found = chosen(directory)
    stopped = stop(found.directory)
    if json:
        print_json({"stopped": stopped, "directory": str(found.directory)})
    else:
        tell(f"stopped; its data are in {found.directory}" if stopped else _none(found))
    return 0


def status(
    *,
    directory: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Tell whether the broker runs.

    Example: penstock dev status --json

    Parameters
    ----------
    directory
        Where its data and log are; when left out, the broker that was started from this folder.
    json
        Print JSON.
    """
    from penstock.dev.choosing import chosen

    found = chosen(directory)
    running = found.running
    if json:
        told = {"directory": str(found.directory)}
        print_json(
            {"bootstrap": running.bootstrap, "pid": running.pid, **told} if running else None
        )
    elif running:
        at = f"{running.bootstrap} (pid {running.pid})"
        tell(f"Kafka runs at {at}; its data and log are in {found.directory}")
    else:
        tell(_none(found))
    return 0


def _none(found: Chosen) -> str:
    """Say that no broker runs, and which do that were started elsewhere."""
    elsewhere = "".join(f"\n  --directory {place}" for place in found.others)
    there = f"; of those that run elsewhere, name one:{elsewhere}" if elsewhere else ""
    return f"no broker runs in {found.directory}{there}"


def _downloaded(jar: str, done: int, total: int) -> None:
    say(f"[{done}/{total}] {jar}")


for command in (up, down, status):
    # Named here: help would else call a command of a command after the running program.
    named = App(name=command.__name__)
    named.default(command)
    app.command(named)
