"""`penstock dev`: a real Kafka broker on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from penstock.cli.output import print_json, say, tell

HOME = Path(".penstock/dev")
PORT = 9092

app = App(
    name="dev", help="A real Kafka broker on this machine, to try things.", help_format="plaintext"
)


def up(
    *,
    port: int = PORT,
    directory: Path = HOME,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Start the broker; the first time its jars are downloaded and checked against their hashes.

    Example: penstock dev up --port 9092

    Parameters
    ----------
    port
        Port to listen on, on the loopback address; 0 picks a free one.
    directory
        Where its data and log are.
    json
        Print JSON.
    """
    from penstock.dev.broker import up as start

    running = start(directory, port, progress=_downloaded)
    if json:
        print_json({"bootstrap": running.bootstrap, "pid": running.pid})
    else:
        tell(f"Kafka runs at {running.bootstrap} (pid {running.pid}); stop it: penstock dev down")
    return 0


def down(*, directory: Path = HOME, json: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Stop the broker; its data stay.

    Example: penstock dev down

    Parameters
    ----------
    directory
        Where its data and log are.
    json
        Print JSON.
    """
    from penstock.dev.broker import down as stop

    stopped = stop(directory)
    if json:
        print_json({"stopped": stopped})
    else:
        tell("stopped" if stopped else "no broker runs here")
    return 0


def status(*, directory: Path = HOME, json: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Tell whether the broker runs.

    Example: penstock dev status --json

    Parameters
    ----------
    directory
        Where its data and log are.
    json
        Print JSON.
    """
    from penstock.dev.broker import status as look

    running = look(directory)
    if json:
        print_json({"bootstrap": running.bootstrap, "pid": running.pid} if running else None)
    else:
        tell(f"Kafka runs at {running.bootstrap} (pid {running.pid})" if running else "no broker")
    return 0


def _downloaded(jar: str, done: int, total: int) -> None:
    say(f"[{done}/{total}] {jar}")


for command in (up, down, status):
    # Named here: help would else call a command of a command after the running program.
    named = App(name=command.__name__)
    named.default(command)
    app.command(named)
