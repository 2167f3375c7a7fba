"""Requests about one partition to the broker that leads it: asked again while it moves.

Invariant: what is asked again is the same request.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.connectors.kafka.native.brokers import Brokers, Leader
from penstock.connectors.kafka.native.connection import FallbackError, Wire
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import named, not_answered, refused, unconnected
from penstock.core.offsets import TopicPartition

PAUSE_SECONDS = 0.05
MOVED = frozenset({3, 5, 6, 7, 9, 14, 15, 16, 19, 20, 51, 56, 74, 75, 76, 78, 100, 103})
"""Errors that pass: the leader moved or is not known, replicas are missing, a coordinator that the
leader asks is busy, offsets are not available yet, storage failed."""

Asked = tuple[Any, int]
"""A request, and its version."""


@dataclass(slots=True)
class Leaders:
    """The leaders of a cluster's partitions; an answer is waited for `patience_seconds`."""

    brokers: Brokers
    settings: KafkaSettings
    patience_seconds: float = 30.0

    def ask(
        self,
        at: TopicPartition,
        make: Callable[[Leader, Wire], Asked],
        part_of: Callable[[Any, Leader], Any],
    ) -> Any:
        """Return what the leader answers about a partition, whatever its error unless it passes.

        Raises UnavailableError (P280) when it did not pass in time, InvalidError (P205) when the
        topic is another one, or as connecting does.
        """
        until = time.monotonic() + self.patience_seconds
        known, what = None, f"topic {at.topic}"
        while True:
            error = 0
            try:
                leader = self.brokers.leader(at, known=known)
                reason = "the topic was created again"
                if leader.is_of(at):
                    wire = self.brokers.wire(leader.node)
                    request, version = make(leader, wire)
                    wire.send(request, version)
                    part = part_of(wire.answer(until), leader)
                    error = part.error_code
                    if error not in MOVED:
                        return part
                    reason = named(error)
                known = leader
            except FallbackError as failed:
                if time.monotonic() + PAUSE_SECONDS > until:
                    raise unconnected(failed, what, self.settings) from failed
                self.brokers.forget()
                known, reason = None, str(failed)
            if time.monotonic() + PAUSE_SECONDS > until:
                raise refused(error, what, self.settings) if error else not_answered(what, reason)
            time.sleep(PAUSE_SECONDS)
