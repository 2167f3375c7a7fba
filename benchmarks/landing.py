"""A pipeline run with every event on its log, where `penstock run` logs one line per commit."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

from penstock.app.assembly.process import SystemClock
from penstock.app.run import run
from penstock.observe.fanout import Observers
from penstock.observe.log import json_log, written_to
from penstock.spec.load import load


def main(spec: Path) -> None:
    """Run until caught up, by the same call as the command."""
    log = json_log(written_to(sys.stdout), SystemClock(), level=logging.DEBUG)
    ended = run(load(spec), observer=Observers(log), stop=threading.Event(), until="caught-up")
    assert not ended.parked, f"tables are parked: {ended.parked}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
