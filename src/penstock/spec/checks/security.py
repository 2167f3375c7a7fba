"""What must agree within the blocks that prove who a client is.

Invariant: no message quotes what may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from penstock.spec.problems import KeyPath, Problem

if TYPE_CHECKING:
    from penstock.spec.settings.records import RegistrySettings
    from penstock.spec.settings.sections import Security


_EXAMPLES = {
    "mechanism": "scram-sha-512",
    "username": "shop",
    "password": '"${file:/run/secrets/password}"',
    "certificate": "./client.pem",
    "key": "./client.key",
}
_PAIRS = (
    ("username", "password"),
    ("password", "username"),
    ("certificate", "key"),
    ("key", "certificate"),
    ("key_password", "key"),
)


def check_security(security: Security) -> Iterator[Problem]:
    """Find settings that the protocol lacks, and those that it does not use."""
    at: KeyPath = ("kafka", "security")
    protocol = security.protocol
    for name in ("mechanism", "username", "password"):
        is_given = getattr(security, name) is not None
        if protocol.startswith("sasl") and not is_given:
            fact = f"protocol {protocol} needs '{name}'"
            hint = f"add  {name}: {_EXAMPLES[name]}"
            yield Problem((*at, name), "P120", fact, hint, on_key=True)
        if not protocol.startswith("sasl") and is_given:
            fact = f"'{name}' is not used with protocol {protocol}"
            yield Problem((*at, name), "P120", fact, "write protocol: sasl_ssl, or remove it")
    for name in ("ca", "certificate", "key", "key_password"):
        if not protocol.endswith("ssl") and getattr(security, name) is not None:
            fact = f"'{name}' is not used with protocol {protocol}"
            yield Problem((*at, name), "P120", fact, "write protocol: ssl or sasl_ssl")
    yield from _alone(security, _PAIRS[2:], at)


def check_registry(registry: RegistrySettings, at: KeyPath) -> Iterator[Problem]:
    """Find what a registry needs together, or cannot take together."""
    yield from _alone(registry, _PAIRS, at)
    if registry.token is not None and registry.username is not None:
        fact = "a registry takes a token or a user, not both"
        yield Problem((*at, "token"), "P120", fact, "remove one of them")


def _alone(
    block: Security | RegistrySettings, pairs: Iterable[tuple[str, str]], at: KeyPath
) -> Iterator[Problem]:
    for name, needed in pairs:
        if getattr(block, name) is not None and getattr(block, needed) is None:
            hint = f"add  {needed}: {_EXAMPLES[needed]}"
            yield Problem((*at, name), "P120", f"'{name}' needs '{needed}' as well", hint)
