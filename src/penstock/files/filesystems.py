"""Opens the storage of a place as a pyarrow filesystem: a disk of this machine, S3, or Azure.

Settings bear deltalake's names (storage_settings.py); an object store is opened once for each.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from pyarrow import fs

from penstock.files.storage_settings import (
    AZURE,
    AZURE_KEYS,
    AZURE_SETTINGS,
    S3,
    S3_SETTINGS,
    Settings,
    account_of,
)

PUBLIC = {each.delta for each in S3_SETTINGS if not each.key} | {
    *("allow_http", "virtual_hosted_style_request"),
    *AZURE_SETTINGS,
}
CREDENTIALS = {each.delta for each in S3_SETTINGS if each.key} | AZURE_KEYS
_PREFIXES = re.compile("^(?:aws_|azure_storage_|azure_)")


def normalised(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by the short lower-case names that deltalake takes as well."""
    short = {_PREFIXES.sub("", key.lower()): value for key, value in options.items()}
    if "endpoint" in short:
        short.setdefault("endpoint_url", short["endpoint"])
    return short


def filesystem_of(uri: str, options: Mapping[str, str]) -> fs.FileSystem:
    """Open the storage of a location; credentials not given come from the environment."""
    settings = tuple(sorted(normalised(options).items()))
    if uri.startswith(AZURE):
        return _azure(account_of(uri, dict(settings)), settings)
    return _s3(settings) if uri.startswith(S3) else fs.LocalFileSystem()


@functools.lru_cache(maxsize=16)
def _s3(options: Settings) -> fs.FileSystem:
    known = dict(options)
    settings = {each.arrow: known[each.delta] for each in S3_SETTINGS if each.delta in known}
    if endpoint := settings.pop("endpoint_override", ""):
        scheme, _, host = endpoint.rpartition("://")
        settings |= {"endpoint_override": host, "scheme": scheme or "https"}
    return fs.S3FileSystem(**settings)


@functools.lru_cache(maxsize=16)
def _azure(account: str, options: Settings) -> fs.FileSystem:
    known = dict(options)
    settings = {name: each for name, each in known.items() if name in AZURE_KEYS | AZURE_SETTINGS}
    if endpoint := settings.pop("endpoint", ""):
        scheme, _, rest = endpoint.rpartition("://")
        for name in ("blob_storage", "dfs_storage"):
            settings |= {f"{name}_authority": rest.partition("/")[0]}
            settings |= {f"{name}_scheme": scheme or "https"}
    return fs.AzureFileSystem(**{**settings, "account_name": account})
