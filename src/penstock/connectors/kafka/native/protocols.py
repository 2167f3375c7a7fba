"""Detects the security protocol of a broker's port, after a connection has failed.

With the wrong one no side reports the cause: brokers close the connection or wait for more, and
librdkafka reports a broker that is down, or a refused user.

Invariants:
- it is asked without our user, password or certificate: none goes to a port of another protocol;
- what is not clear is not reported.

Source: KIP-35 (ApiVersions is answered before authentication); KIP-43 (the handshake).
"""

from __future__ import annotations

import contextlib
import ssl

from kafka.protocol.sasl import SaslHandshakeRequest

from penstock.connectors.kafka.native.brokers import addresses
from penstock.connectors.kafka.native.connection import HANDSHAKE_VERSION, FallbackError, Wire
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.core.errors import InvalidError

PATIENCE_SECONDS = 3.0
ILLEGAL_SASL_STATE = 34
"""What a port without SASL answers to a handshake of it."""
_MEANS = {
    "plaintext": "neither TLS nor SASL",
    "ssl": "TLS without SASL",
    "sasl_plaintext": "SASL without TLS",
    "sasl_ssl": "SASL over TLS",
}


def mismatch(settings: KafkaSettings) -> InvalidError | None:
    """Return the error of a spec with another protocol than the brokers', if that is clear."""
    asked = settings.client["security.protocol"].lower()
    with contextlib.suppress(FallbackError):
        for address in addresses(settings.brokers, asked):
            spoken = protocol_of(address)
            if spoken == asked:
                return None
            if spoken is not None:
                host, port = address
                return InvalidError(
                    f"the broker at {host}:{port} speaks {spoken} ({_MEANS[spoken]}), and"
                    f" kafka.security says {asked} ({_MEANS[asked]})",
                    code="P193",
                    hint=f"write  protocol: {spoken}  under kafka.security, or name in"
                    f" kafka.brokers the port that speaks {asked}",
                )
    return None


def protocol_of(address: tuple[str, int]) -> str | None:
    """Return the protocol that a port speaks, or None where none of the four is seen."""
    any_certificate = ssl.create_default_context()
    any_certificate.check_hostname = False
    any_certificate.verify_mode = ssl.CERT_NONE  # no secret is sent to it, nothing of it is trusted
    for tls, name in ((None, "plaintext"), (any_certificate, "ssl")):
        with contextlib.suppress(FallbackError):
            wire = Wire(address, tls=tls, sasl={}, patience_seconds=PATIENCE_SECONDS)
            return _with_or_without_sasl(wire, name)
    return None


def _with_or_without_sasl(wire: Wire, name: str) -> str | None:
    """Ask how to log in: a port where nobody logs in says that this is no time for it.

    A connection that is closed says nothing: a broker that restarts closes it as well.
    """
    try:
        answer = wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), HANDSHAKE_VERSION)
    except FallbackError:
        return None
    finally:
        wire.close()
    return name if answer.error_code == ILLEGAL_SASL_STATE else f"sasl_{name}"
