"""Whole objects of a storage, each fetched or put in one request.

Invariants:
- an object exists whole or not at all;
- what goes wrong is an OSError with the object's place and the first line of what the storage
  said, and none of its settings; a panic of the library as well;
- a store is opened once for its place and settings, which bear deltalake's names
  (storage_settings.py);
- only drivers are here: executors need no library for it.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, LocalStore, ObjectStore, S3Store

from penstock.files.errors import first_line, is_panic
from penstock.files.storage_settings import (
    AZURE,
    AZURE_KEYS,
    AZURE_SETTINGS,
    S3,
    S3_SETTINGS,
    Settings,
    account_of,
)

_OTHER_SETTINGS = {"virtual_hosted_style_request", "conditional_put"}
_KNOWN = {each.delta for each in S3_SETTINGS} | _OTHER_SETTINGS


@functools.lru_cache(maxsize=64)
def store_at(place: str, settings: Settings) -> ObjectStore:
    """Open a directory of this machine or a place in S3 or Azure; unknown settings are ignored."""
    known = dict(settings)
    plain = known.get("allow_http", "").lower() == "true"
    config: Any
    if place.startswith(AZURE):
        config = {key: known[key] for key in (AZURE_KEYS | AZURE_SETTINGS) & known.keys()}
        config["account_name"] = account_of(place, known)
        return AzureStore.from_url(place, config=config, client_options={"allow_http": plain})
    if place.startswith(S3):
        config = {key: known[key] for key in _KNOWN & known.keys()}
        return S3Store.from_url(place, config=config, client_options={"allow_http": plain})
    return LocalStore(place)


def fetch(place: str, settings: Settings, key: str) -> bytes:
    """Read an object of a store. Raises FileNotFoundError, PermissionError and other OSErrors."""
    with _translated(place, key):
        return bytes(obstore.get(store_at(place, settings), key).bytes())


def put(
    place: str, settings: Settings, key: str, body: bytes, mode: Literal["create", "overwrite"]
) -> None:
    """Write an object; `create` asks the storage to write only if the object does not exist.

    Raises FileExistsError, PermissionError (nothing was written), and other OSErrors, after which
    it may be there or not. The library may have asked twice by itself, so what exists may be ours.
    """
    with _translated(place, key):
        obstore.put(store_at(place, settings), key, body, mode=mode, use_multipart=False)


def delete(place: str, settings: Settings, key: str) -> None:
    """Remove an object. Raises OSError."""
    with _translated(place, key):
        obstore.delete(store_at(place, settings), key)


@contextmanager
def _translated(place: str, key: str) -> Iterator[None]:
    try:
        yield
    except (AlreadyExistsError, PreconditionError) as error:
        raise FileExistsError(errno.EEXIST, first_line(error), f"{place}/{key}") from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, first_line(error), f"{place}/{key}") from error
    except BaseError as error:
        raise OSError(f"{place}/{key}: {first_line(error)}") from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise OSError(f"{place}/{key}: {first_line(error)}") from error
