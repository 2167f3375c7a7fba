"""Which client writes a publication's transactions, and what it writes them with."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

from penstock.app.assembly.connectors import connector_of
from penstock.core.errors import InvalidError, PenstockError
from penstock.ports.connectors import LogConnector
from penstock.ports.log import Log
from penstock.ports.producers import NO_TRANSACTIONS, PROTOCOL_1, Producers
from penstock.publishing.settings import Publication
from penstock.spec.secrets import ProcessSecrets
from penstock.spec.settings.publication import OFF, REQUIRED, ExactlyOnce, ProducerName

AUTO, OWN, LIBRDKAFKA = "auto", "own", "librdkafka"
TOO_OLD = "P282"
"""The code of a cluster that does not have what terms rest on."""


def client_settings(
    producer: ProducerName, exactly_once: ExactlyOnce, tasks: int
) -> dict[str, Any]:
    """Return which client writes, as far as the spec says it: `auto` asks the cluster."""
    if exactly_once == OFF:
        return {"client": LIBRDKAFKA, "protocol": NO_TRANSACTIONS}
    if producer == LIBRDKAFKA or (producer == AUTO and tasks > 1):
        return {"client": LIBRDKAFKA, "protocol": PROTOCOL_1, "exactly_once": exactly_once}
    return {"client": producer, "exactly_once": exactly_once}


def settled(publication: Publication) -> Publication:
    """Return a publication with the client that its cluster allows.

    Where protocol 2 is not there it is the library; where nothing verifies transactions, and they
    are only requested, it publishes at least once. What else is wrong is found by what follows.
    """
    if publication.target["client"] == AUTO:
        own = _with(publication, client=OWN)
        publication = own if _serves(own) else _with(own, client=LIBRDKAFKA, protocol=PROTOCOL_1)
    if publication.target.get("exactly_once", REQUIRED) != REQUIRED and not _serves(publication):
        return _with(publication, client=LIBRDKAFKA, protocol=NO_TRANSACTIONS)
    return publication


def _with(publication: Publication, **client: Any) -> Publication:
    return replace(publication, target={**publication.target, **client})


def _serves(publication: Publication) -> bool:
    """Return whether a cluster has what a client's terms rest on, as far as it answers."""
    try:
        with closing(open_producers(publication)) as producers:
            producers.terms.check()
    except InvalidError as error:
        return error.code != TOO_OLD
    except PenstockError:
        return True
    return True


def open_producers(publication: Publication) -> Producers:
    """Open what ends a publication's transactions. Connects when first asked."""
    opening = connector_of(LogConnector, publication.target["connector"]).open_producers
    assert opening is not None, "the connector for Kafka has it"
    timeout_ms = round(publication.timeout_seconds * 1000)
    return opening(publication.target, ProcessSecrets(), publication.offsets_topic, timeout_ms)


def open_targets(publication: Publication) -> Log:
    """Open the list of the topics that are written."""
    opening = connector_of(LogConnector, publication.target["connector"]).open_log
    return opening(publication.target, ProcessSecrets())
