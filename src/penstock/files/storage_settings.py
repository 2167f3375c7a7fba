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
AZURE = ("az://", "abfss://")
"""A container of the account in the settings; or, behind an @, of the one that the host names."""
OBJECT_STORES = (S3, *AZURE)
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


AZURE_SETTINGS = {"account_name", "client_id", "tenant_id", "endpoint"}
AZURE_KEYS = {"account_key", "sas_token", "client_secret"}
"""The settings of Azure, as deltalake and pyarrow call them; the keys are secrets."""


def is_object_store(place: str) -> bool:
    """Return whether a place is in an object store, not on a disk."""
    return place.startswith(OBJECT_STORES)


def path_in(place: str) -> str:
    """Return the path that the filesystem of a place knows: the bucket or container comes first."""
    if not is_object_store(place):
        return place
    host, _, path = place.partition("://")[2].partition("/")
    return f"{host.partition('@')[0]}/{path}".rstrip("/")


def address_of(path: str, root: str) -> str:
    """Return the address of a path in the storage of a root: what `path_in` was given."""
    scheme, mark, rest = root.partition("://")
    if not mark:
        return path
    _, at, host = rest.partition("/")[0].partition("@")
    bucket, _, key = path.partition("/")
    return f"{scheme}://{bucket}{at}{host}/{key}"


def account_of(place: str, settings: Mapping[str, str]) -> str:
    """Return the account in Azure that a place is in; "" where nothing says it."""
    host = place.partition("://")[2].partition("/")[0].partition("@")[2]
    return host.partition(".")[0] or settings.get("account_name", "")


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
