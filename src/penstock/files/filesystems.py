"""Opens the storage of a place as a pyarrow filesystem: a disk of this machine, or S3.

Settings bear deltalake's names (storage_settings.py); an object store is opened once for each.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from pyarrow import fs

from penstock.files.storage_settings import S3, S3_SETTINGS, Settings

PUBLIC = {each.delta for each in S3_SETTINGS if not each.key} | {
    "allow_http",
    "virtual_hosted_style_request",
}
CREDENTIALS = {each.delta for each in S3_SETTINGS if each.key}


def normalised(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by the short lower-case names that deltalake takes as well."""
    short = {key.lower().removeprefix("aws_"): value for key, value in options.items()}
    if "endpoint" in short:
        short.setdefault("endpoint_url", short["endpoint"])
    return short


def filesystem_of(uri: str, options: Mapping[str, str]) -> fs.FileSystem:
    """Open the storage of a location; credentials not given come from the environment."""
    if not uri.startswith(S3):
        return fs.LocalFileSystem()
    return _s3(tuple(sorted(normalised(options).items())))


@functools.lru_cache(maxsize=16)
def _s3(options: Settings) -> fs.FileSystem:
    known = dict(options)
    settings = {each.arrow: known[each.delta] for each in S3_SETTINGS if each.delta in known}
    if endpoint := settings.pop("endpoint_override", ""):
        scheme, _, host = endpoint.rpartition("://")
        settings |= {"endpoint_override": host, "scheme": scheme or "https"}
    return fs.S3FileSystem(**settings)
