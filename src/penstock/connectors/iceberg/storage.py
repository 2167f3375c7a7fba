"""Which storage settings reach workers, and how their credentials do.

Invariants:
- a setting that is not listed here does not travel;
- a credential of the spec travels as the reference that stands there and is resolved in the worker;
  one that is written out is refused, for it would have to travel itself;
- what a catalog lends for a table travels as it is, in the task's own job and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.core.errors import InvalidError
from penstock.ports.running import Secrets
from penstock.spec.secrets import is_literal

_OPEN = frozenset(
    {
        "adls.account-name",
        "adls.blob-storage-authority",
        "adls.dfs-storage-authority",
        "client.region",
        "gcs.endpoint",
        "gcs.project-id",
        "hdfs.host",
        "hdfs.port",
        "s3.anonymous",
        "s3.connect-timeout",
        "s3.endpoint",
        "s3.force-virtual-addressing",
        "s3.region",
        "s3.request-timeout",
        "s3.resolve-region",
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
        "s3.access-key-id",
        "s3.role-arn",
        "s3.role-session-name",
        "s3.secret-access-key",
        "s3.session-token",
    }
)


@dataclass(frozen=True, slots=True)
class Credential:
    """One of the spec's: the reference as it stands there, and what it gave here."""

    reference: str
    value: str = field(repr=False)


def credentials_of(
    catalog: str, written: Mapping[str, str], resolved: Mapping[str, str]
) -> dict[str, Credential]:
    """Find the credentials among a catalog's settings. Raises InvalidError (P441)."""
    found = {}
    for key in sorted(_CREDENTIALS & written.keys()):
        if is_literal(written[key]):
            raise InvalidError(
                f"{key} of the catalog {catalog} is written out, and workers need it as well: it "
                "would have to travel with every task",
                code="P441",
                hint=f"write  {key}: ${{env:NAME}}  or  ${{file:/path}}, there on every executor",
            )
        found[key] = Credential(written[key], resolved[key])
    return found


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
    """Give the settings with credentials. Raises InvalidError when a reference is not there."""
    known = {
        key: secrets.resolve(value) if key in _CREDENTIALS else value
        for key, value in storage.items()
    }
    return {**known, **lent}
