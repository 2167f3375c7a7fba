"""Selects the storage settings that reach workers, and how their credentials travel.

Invariants:
- a setting that is not listed here does not travel;
- a credential of the spec travels as its reference and is resolved in the worker; one that is
  written out is rejected, since it would have to travel itself;
- what a catalog lends for a table travels as it is, in the task's own job and nowhere else;
- it is renewed in time, whichever of two clocks fails: a wall clock that is set back delays
  nothing, since the seconds of this process go on, and where these stopped because the machine
  slept, the wall clock went on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.files.storage_settings import S3_SETTINGS, references, resolved
from penstock.ports.runtime import Secrets

_OPEN = frozenset(
    {
        "adls.account-host",
        "adls.account-name",
        "adls.blob-storage-authority",
        "adls.blob-storage-scheme",
        "adls.dfs-storage-authority",
        "adls.dfs-storage-scheme",
        "client.region",
        "gcs.default-bucket-location",
        "gcs.project-id",
        "gcs.service.host",
        "s3.anonymous",
        "s3.connect-timeout",
        "s3.force-virtual-addressing",
        "s3.request-timeout",
        "s3.resolve-region",
        *(each.iceberg for each in S3_SETTINGS if not each.key),
    }
)
_CREDENTIALS = frozenset(
    {
        "adls.account-key",
        "adls.client-id",
        "adls.client-secret",
        "adls.connection-string",
        "adls.sas-token",
        "adls.tenant-id",
        "client.access-key-id",
        "client.role-arn",
        "client.secret-access-key",
        "client.session-token",
        "gcs.oauth2.token",
        "gcs.oauth2.token-expires-at",
        "s3.role-arn",
        "s3.role-session-name",
        *(each.iceberg for each in S3_SETTINGS if each.key),
    }
)


@dataclass(frozen=True, slots=True)
class Credential:
    """One of the spec's: the reference as written there, and the value that it resolved to here."""

    reference: str
    value: str = field(repr=False)


def credentials_of(
    catalog: str, written: Mapping[str, str], known: Mapping[str, str]
) -> dict[str, Credential]:
    """Find the credentials among a catalog's settings. Raises InvalidError (P441)."""
    found = references(f"the catalog {catalog}", written, _CREDENTIALS)
    return {key: Credential(reference, known[key]) for key, reference in found.items()}


def shared(
    properties: Mapping[str, str], own: Mapping[str, Credential]
) -> tuple[dict[str, str], dict[str, str]]:
    """Split a table's storage settings into those that may be shown, and what its catalog lent."""
    storage = {key: str(properties[key]) for key in sorted(_OPEN & properties.keys())}
    lent = {}
    for key in sorted(_CREDENTIALS & properties.keys()):
        if key in own and own[key].value == properties[key]:
            storage[key] = own[key].reference
        else:
            lent[key] = str(properties[key])
    return storage, lent


def opened(storage: Mapping[str, str], lent: Mapping[str, str], secrets: Secrets) -> dict[str, str]:
    """Return the settings with credentials. Raises InvalidError when a reference is not there."""
    return {**resolved(storage, _CREDENTIALS, secrets), **lent}


def expiry(
    wait_ms: int, now_ms: Callable[[], int], monotonic: Callable[[], float]
) -> Callable[[], bool]:
    """Begin to wait; return a function that returns whether so many milliseconds have passed."""
    until_ms, until = now_ms() + wait_ms, monotonic() + wait_ms / 1000
    return lambda: now_ms() >= until_ms or monotonic() >= until
