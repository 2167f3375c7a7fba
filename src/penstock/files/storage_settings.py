"""The settings of storages: the names that libraries have for one setting, and how keys travel.

Invariants:
- a key of the spec travels to workers as the reference in the spec, and is resolved there;
- one that is written out is refused: it would have to travel itself (design/0021).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from penstock.core.errors import InvalidError
from penstock.ports.runtime import Secrets
from penstock.spec.secrets import is_literal

S3 = "s3://"
Settings = tuple[tuple[str, str], ...]
"""Settings by deltalake's names, as a key of what is kept."""


@dataclass(frozen=True, slots=True)
class S3Setting:
    """One setting of S3 as pyarrow, deltalake and PyIceberg call it; `key` when it is a secret."""

    arrow: str
    delta: str
    iceberg: str
    key: bool = False


S3_SETTINGS = (
    S3Setting("region", "region", "s3.region"),
    S3Setting("endpoint_override", "endpoint_url", "s3.endpoint"),
    S3Setting("access_key", "access_key_id", "s3.access-key-id", key=True),
    S3Setting("secret_key", "secret_access_key", "s3.secret-access-key", key=True),
    S3Setting("session_token", "session_token", "s3.session-token", key=True),
)


def references(of: str, written: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    """Return the keys among the settings of something as the spec has them.

    Raises InvalidError (P441) for one that is written out.
    """
    found = {key: written[key] for key in sorted(written) if key in keys}
    for key, reference in found.items():
        if is_literal(reference):
            raise InvalidError(
                f"{key} of {of} is written out, and workers need it as well: it would be sent with"
                " every task",
                code="P441",
                hint=f"write  {key}: ${{env:NAME}}  or  ${{file:/path}}, there on every executor",
            )
    return found


def resolved(storage: Mapping[str, str], keys: Collection[str], secrets: Secrets) -> dict[str, str]:
    """Return a worker's settings with its keys. Raises InvalidError: a reference is missing."""
    return {
        name: secrets.resolve(value) if name in keys else value for name, value in storage.items()
    }
