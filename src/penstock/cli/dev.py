"""`penstock dev`: a real Kafka broker on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.cli.output import print_json, print_line, say
from penstock.cli.parameters import Directory, Json, command_group

if TYPE_CHECKING:
    from penstock.dev.broker import Chosen, Running

PORT = 9092


def up(
    *,
    port: int = PORT,
    directory: Annotated[
        Directory, Parameter(help="Folder for its data and log; default: .penstock/dev.")
    ] = None,
    json: Json = False,
) -> int:
    """Start the broker; the first start downloads its jars and checks their hashes.

    Example: penstock dev up --port 9092

    Parameters
    ----------
    port
        Port to listen on, on the loopback address; 0 picks a free one.
    """
    from penstock.dev.broker import HOME
    from penstock.dev.broker import up as start

    def downloaded(jar: str, done: int, total: int) -> None:
        say(f"[{done}/{total}] {jar}")

    running = start(directory or HOME, port, progress=downloaded)
    if json:
        print_json(_data(running, directory or HOME))
    else:
        where = "" if directory is None else f" --directory {directory}"
        print_line(f"{_address(running)}; stop it: penstock dev down{where}")
        if not running.bootstrap.endswith(f":{PORT}"):
            print_line(f"use it: export BROKERS={running.bootstrap}")
    return 0


def down(*, directory: Directory = None, json: Json = False) -> int:
    """Stop the broker; its data stay.

    Example: penstock dev down
    """
    from penstock.dev.broker import chosen
    from penstock.dev.broker import down as stop

    found = chosen(directory)
    stopped = stop(found.directory)
    if json:
        print_json({"stopped": stopped, "directory": str(found.directory)})
    else:
        print_line(f"stopped; its data are in {found.directory}" if stopped else _none(found))
    return 0


def status(*, directory: Directory = None, json: Json = False) -> int:
    """Show whether the broker runs, and where.

    Example: penstock dev status --json
    """
    from penstock.dev.broker import chosen

    found = chosen(directory)
    running = found.running
    if json:
        print_json(_data(running, found.directory) if running else None)
    elif running:
        print_line(f"{_address(running)}; its data and log are in {found.directory}")
    else:
        print_line(_none(found))
    return 0


app = command_group(
    "dev", "Run a real Kafka broker on this machine.", {"up": up, "down": down, "status": status}
)


def _data(running: Running, directory: Path) -> dict[str, Any]:
    return {"bootstrap": running.bootstrap, "pid": running.pid, "directory": str(directory)}


def _address(running: Running) -> str:
    return f"Kafka runs at {running.bootstrap} (pid {running.pid})"


def _none(found: Chosen) -> str:
    elsewhere = "".join(f"\n  --directory {place}" for place in found.others)
    there = f"; running elsewhere, name one:{elsewhere}" if elsewhere else ""
    return f"no broker runs in {found.directory}{there}"
