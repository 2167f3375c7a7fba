"""Readers of logs in a worker's process: opened once, and kept over tasks of whatever work."""

from __future__ import annotations

import json
from functools import cache, partial

from penstock.app.assembly.connectors import connector_of
from penstock.files.reopening import Reopening
from penstock.ports.connectors import LogConnector
from penstock.ports.log import RangeReader
from penstock.spec.secrets import ProcessSecrets


@cache
def kept_reader(settings: str) -> Reopening[RangeReader]:
    """Return the reader of a log by its settings as JSON."""
    data, secrets = json.loads(settings), ProcessSecrets()
    opening = partial(connector_of(LogConnector, data["connector"]).open_reader, data, secrets)
    return Reopening(data, secrets, opening, lambda reader: reader.close())
