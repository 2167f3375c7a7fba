"""Readers of logs in a worker's process: opened once, and kept over tasks of whatever work.

What reads and sends is used from one thread, so each thread keeps its own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import TypeVar

from penstock.app.assembly.connectors import connector_of
from penstock.files.reopening import Reopening
from penstock.ports.connectors import LogConnector
from penstock.ports.log import RangeReader
from penstock.spec.secrets import ProcessSecrets

Made = TypeVar("Made")


def kept_in_thread(make: Callable[[str], Made]) -> Callable[[str], Made]:
    """Keep what a function makes of a text, for the thread that asked."""
    own = threading.local()

    @wraps(make)
    def kept(text: str) -> Made:
        made: dict[str, Made] = own.__dict__
        if text not in made:
            made[text] = make(text)
        return made[text]

    return kept


@kept_in_thread
def kept_reader(settings: str) -> Reopening[RangeReader]:
    """Return the reader of a log by its settings as JSON."""
    data, secrets = json.loads(settings), ProcessSecrets()
    opening = partial(connector_of(LogConnector, data["connector"]).open_reader, data, secrets)
    return Reopening(data, secrets, opening, lambda reader: reader.close())
