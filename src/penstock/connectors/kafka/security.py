"""From the spec's neutral `security` block to librdkafka's properties.

Invariants:
- the block is mapped here and nowhere else; what is not known, or has no effect, is refused;
- where tokens come from is a `TokenSource`, under `oauth_cb`: own connections take them there, too.

Source: librdkafka, CONFIGURATION.md; KIP-255 and KIP-768 (OAUTHBEARER).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.connectors.kafka.tokens.command import TokenCommand
from penstock.connectors.kafka.tokens.endpoint import ClientCredentials
from penstock.connectors.kafka.tokens.msk import MskSigner, region_of
from penstock.connectors.kafka.tokens.source import source_of
from penstock.core.errors import InvalidError
from penstock.spec.settings.security import CLIENT, OF_CLIENT, OF_SASL, USED_BY, USER

TOKENS = "oauth_cb"
PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_KERBEROS = {
    "kerberos_service": "sasl.kerberos.service.name",
    "kerberos_principal": "sasl.kerberos.principal",
    "kerberos_keytab": "sasl.kerberos.keytab",
}
_TLS_KEYS = ("ca", "certificate", "key", "key_password")
SECURITY_KEYS = ("protocol", "mechanism", *OF_SASL, *_TLS_KEYS)
PEM_BEGIN = "-----BEGIN"


def security_properties(security: Mapping[str, Any], brokers: str = "") -> dict[str, Any]:
    """Map the neutral `security` block, secrets resolved, to librdkafka properties.

    Certificates and keys are file names, or PEM text. Raises InvalidError (P207).
    """
    for name in security:
        known("kafka.security", name, SECURITY_KEYS)
    protocol = security.get("protocol", _implied_protocol(security)).strip().lower()
    known("kafka.security.protocol", protocol, PROTOCOLS)
    properties = {"security.protocol": protocol}
    if protocol.startswith("sasl"):
        properties |= _sasl(security, brokers)
    else:
        _refuse(security, ("mechanism", *OF_SASL), f"protocol {protocol}", PROTOCOLS)
    if protocol.endswith("ssl"):
        properties |= _tls(security)
    else:
        _refuse(security, _TLS_KEYS, f"protocol {protocol}", PROTOCOLS)
    return properties


def known(where: str, given: Any, names: Sequence[str]) -> str:
    """Return what is given if it is among the names. Raises InvalidError (P207)."""
    found = str(given)
    if found in names:
        return found
    near = difflib.get_close_matches(found, names, 1)
    asked = f"did you mean {near[0]}?  " if near else ""
    raise InvalidError(
        f"{where}: {found!r} is not known", code="P207", hint=f"{asked}known: {', '.join(names)}"
    )


def _sasl(security: Mapping[str, Any], brokers: str) -> dict[str, Any]:
    mechanism = security.get("mechanism", "").strip().lower()
    mechanism = mechanism if mechanism in USED_BY else mechanism.replace("_", "-")
    known("kafka.security.mechanism", mechanism, tuple(USED_BY))
    unused = [name for name in OF_SASL if name not in USED_BY[mechanism]]
    _refuse(security, unused, f"mechanism {mechanism}", tuple(USED_BY))
    match mechanism:
        case "oauthbearer":
            return _tokens(security)
        case "gssapi":
            given = {name: security[key] for key, name in _KERBEROS.items() if security.get(key)}
            return {"sasl.mechanism": "GSSAPI", **given}
        case "aws_msk_iam":
            region = security.get("region") or region_of(brokers)
            _require({"region": region}, ("region",), mechanism)
            return {"sasl.mechanism": "OAUTHBEARER", TOKENS: source_of(MskSigner(region), ())}
    _require(security, USER, mechanism)
    return {
        "sasl.mechanism": mechanism.upper(),
        "sasl.username": security["username"],
        "sasl.password": security["password"],
    }


def _tokens(security: Mapping[str, Any]) -> dict[str, Any]:
    """Map where tokens come from: a command, or a client of a token endpoint."""
    extensions = tuple(sorted(security.get("extensions", {}).items()))
    words = security.get("token_command")
    if words:
        _refuse(security, OF_CLIENT, "token_command", ("the two",))
        source = source_of(TokenCommand(tuple(words)), extensions)
    else:
        _require(security, CLIENT, "oauthbearer")
        endpoint = security["token_endpoint"]
        if not endpoint.lower().startswith(("https://", "http://")):
            raise InvalidError(
                "kafka.security.token_endpoint is no address of http",
                code="P207",
                hint="write  token_endpoint: https://login.example.com/oauth2/token",
            )
        issuer = ClientCredentials(
            endpoint,
            security["client_id"],
            security["client_secret"],
            security.get("scope", ""),
            security.get("token_ca", ""),
        )
        source = source_of(issuer, extensions)
    return {"sasl.mechanism": "OAUTHBEARER", TOKENS: source}


def _tls(security: Mapping[str, Any]) -> dict[str, str]:
    properties = {}
    for name, stem in (("ca", "ssl.ca"), ("certificate", "ssl.certificate"), ("key", "ssl.key")):
        value = security.get(name, "")
        if value:
            kind = "pem" if value.lstrip().startswith(PEM_BEGIN) else "location"
            properties[f"{stem}.{kind}"] = value
    if security.get("key_password"):
        properties["ssl.key.password"] = security["key_password"]
    if bool(security.get("certificate")) != bool(security.get("key")):
        raise InvalidError(
            "kafka.security has one of certificate and key; a client certificate needs both",
            code="P207",
            hint="write both, or neither",
        )
    return properties


def _implied_protocol(security: Mapping[str, Any]) -> str:
    if any(security.get(name) for name in ("mechanism", *OF_SASL)):
        return "sasl_ssl"
    return (
        "ssl" if any(security.get(name) for name in ("ca", "certificate", "key")) else "plaintext"
    )


def _require(security: Mapping[str, Any], names: Sequence[str], mechanism: str) -> None:
    for name in names:
        if not security.get(name):
            raise InvalidError(
                f"kafka.security.{name} is empty, and mechanism {mechanism} needs it",
                code="P207",
                hint=f"write  {name}: ${{env:KAFKA_{name.upper()}}}  under kafka.security:",
            )


def _refuse(
    security: Mapping[str, Any], names: Sequence[str], beside: str, others: Sequence[str]
) -> None:
    """Refuse settings that would have no effect beside another one."""
    for name in names:
        if security.get(name):
            raise InvalidError(
                f"kafka.security.{name} has no meaning with {beside}",
                code="P207",
                hint=f"choose another of {', '.join(others)}, or leave {name} out",
            )
