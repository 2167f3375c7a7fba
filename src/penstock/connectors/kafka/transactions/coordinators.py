"""Requests to the coordinator of a transactional id: asked again while it moves, loads or is busy.

Invariant: what is asked again is the same request, under the same term; whoever asks something that
must not be repeated does not ask here.

Source: KIP-98, KIP-890; `org.apache.kafka.clients.producer.internals.TransactionManager`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.connectors.kafka.native.brokers import Brokers
from penstock.connectors.kafka.native.connection import FallbackError, Wire
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import (
    CONCURRENT,
    COORDINATOR_MOVED,
    named,
    not_answered,
    refused,
    require_version,
    unconnected,
)

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.02, 1.0
_AGAIN = COORDINATOR_MOVED | {CONCURRENT}


@dataclass(slots=True)
class Coordinators:
    """The coordinators of a cluster's transactional ids."""

    brokers: Brokers
    settings: KafkaSettings

    def ask(
        self,
        transactional_id: str,
        make: Callable[[], Any],
        version: int,
        *,
        patience_seconds: float,
        error_of: Callable[[Any], int] = lambda answer: int(answer.error_code),
    ) -> Any:
        """Return the first answer that is not to wait, whatever its error.

        Raises UnavailableError (P280) when there was none in time, InvalidError: too old a broker
        (P282), or as connecting does.
        """
        what = f"transactional id {transactional_id}"
        until = time.monotonic() + patience_seconds
        pause = PAUSE_SECONDS_MIN
        while True:
            try:
                error, wire = self.brokers.coordinator(transactional_id)
                reason = named(error)
                if wire is not None:
                    answer = self._answered(wire, make(), version, until)
                    error = error_of(answer)
                    if error not in _AGAIN:
                        return answer
                    reason = named(error)
                elif error not in _AGAIN:
                    raise refused(error, what, self.settings)
            except FallbackError as failed:
                if time.monotonic() + pause > until:
                    raise unconnected(failed, what, self.settings) from failed
                self.brokers.forget()
                reason = str(failed)
            if time.monotonic() + pause > until:
                raise not_answered(what, reason)
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _answered(self, wire: Wire, request: Any, version: int, until: float) -> Any:
        require_version(wire, request, version, self.settings)
        wire.send(request, version)
        return wire.answer(until)
