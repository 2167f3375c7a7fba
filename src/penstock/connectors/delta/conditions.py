"""Proves that a storage refuses a second file in the place of the first.

A Delta log is a sequence of numbered files, and a commit is the creation of the next one: it is a
compare-and-set only where the storage creates a file that is not there, and no other (in S3 a PUT
with `If-None-Match`). Some servers and gateways ignore the condition; then the second of two racing
commits silently replaces the first.

Invariant: the file that is tried is no table's, and is removed again.
"""

from __future__ import annotations

import secrets as tokens
from contextlib import suppress

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore

from penstock.connectors.delta.entries import store_of
from penstock.connectors.delta.faults import refused, told
from penstock.connectors.delta.places import Root, normalised
from penstock.core.errors import InvalidError


def require_conditional_writes(catalog: str, root: Root) -> None:
    """Create one file twice in S3. Raises InvalidError: P431 refused, P442 both were taken."""
    if normalised(root.options).get("conditional_put", "") == "disabled":
        raise _careless(catalog)
    try:
        taken = _second_is_taken(store_of(root.uri, root))
    except BaseError as error:
        raise refused(f"the catalog {catalog} at {root.uri}", told(error)) from error
    if taken:
        raise _careless(catalog)


def _second_is_taken(store: ObjectStore) -> bool:
    path = f".penstock-check-{tokens.token_hex(8)}"
    obstore.put(store, path, b"first", mode="create", use_multipart=False)
    try:
        obstore.put(store, path, b"second", mode="create", use_multipart=False)
    except (AlreadyExistsError, PreconditionError):
        return False
    finally:
        with suppress(BaseError):
            obstore.delete(store, path)
    return True


def _careless(catalog: str) -> InvalidError:
    return InvalidError(
        f"the storage of the catalog {catalog} takes a second file in the place of the first: "
        "racing commits would replace each other",
        code="P442",
        hint="use a storage that honours If-None-Match, without conditional_put: disabled; "
        "Iceberg needs no such storage",
    )
