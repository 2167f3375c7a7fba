"""What a task works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.ports.exchange import Exchanges, no_exchange
from penstock.ports.log import RangeReader
from penstock.ports.runtime import Clock, Observer
from penstock.ports.writers import WriterFactory
from penstock.rows.decode.decoder import ReaderCache, plain_readers
from penstock.rows.route.compute import Functions, no_functions


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What a worker works with: `writers` and `exchanges` by connector name, `readers` by a
    registry's settings, `functions` by their import path.
    """

    reader: RangeReader
    writers: Mapping[str, WriterFactory]
    observer: Observer
    clock: Clock
    readers: Callable[[Mapping[str, Any] | None], ReaderCache] = field(
        default_factory=plain_readers
    )
    functions: Functions = no_functions
    exchanges: Exchanges = no_exchange
