"""Which security protocol a broker's port speaks: asked when a connection did not come about.

With the wrong one nobody says what is wrong: brokers close the connection or wait for more, and
librdkafka tells of a broker that is down, or of a refused user.

Invariants:
- it is asked without our user, password or certificate: none goes to a port of another protocol;
- what is not clear is not told.

Source: KIP-35 (ApiVersions is answered before authentication); Kafka, "Security Overview".
"""

from __future__ import annotations

import contextlib
import ssl

from kafka.protocol.metadata import MetadataRequest

from penstock.connectors.kafka.native.brokers import METADATA_VERSION, addresses
from penstock.connectors.kafka.native.connection import UnfitError, Wire
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.core.errors import InvalidError

PATIENCE_SECONDS = 3.0
_MEANS = {
    "plaintext": "neither TLS nor SASL",
    "ssl": "TLS without SASL",
    "sasl_plaintext": "SASL without TLS",
    "sasl_ssl": "SASL over TLS",
}


def mismatch(settings: KafkaSettings) -> InvalidError | None:
    """Return the error of a spec whose protocol is not the brokers', where that can be told."""
    asked = settings.client["security.protocol"].lower()
    with contextlib.suppress(UnfitError):
        for address in addresses(settings.brokers, asked):
            spoken = protocol_of(address)
            if spoken is None:
                continue
            return None if spoken == asked else _other_protocol(address, spoken, asked)
    return None


def protocol_of(address: tuple[str, int]) -> str | None:
    """Return the protocol that a port speaks, or None where none of the four is seen."""
    for tls, name in ((None, "plaintext"), (_any_certificate(), "ssl")):
        with contextlib.suppress(UnfitError):
            wire = Wire(address, tls=tls, sasl={}, patience_seconds=PATIENCE_SECONDS)
            return _with_or_without_sasl(wire, name)
    return None


def _with_or_without_sasl(wire: Wire, name: str) -> str | None:
    """Ask for more than versions: a port that wants to know first who asks closes."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    try:
        wire.ask(request, wire.version(request, METADATA_VERSION))
    except UnfitError as error:
        return f"sasl_{name}" if isinstance(error.__cause__, ConnectionError) else None
    finally:
        wire.close()
    return name


def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is told to it, and nothing of it is believed
    return context


def _other_protocol(address: tuple[str, int], spoken: str, asked: str) -> InvalidError:
    host, port = address
    return InvalidError(
        f"the broker at {host}:{port} speaks {spoken} ({_MEANS[spoken]}), and kafka.security says"
        f" {asked} ({_MEANS[asked]})",
        code="P193",
        hint=f"write  protocol: {spoken}  under kafka.security, or name in kafka.brokers the port"
        f" that speaks {asked}",
    )
