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

from penstock.connectors.delta.errors import refused
from penstock.connectors.delta.locations import StorageRoot
from penstock.core.errors import InvalidError
from penstock.files import objects
from penstock.files.errors import told


def require_conditional_writes(catalog: str, root: StorageRoot) -> None:
    """Create one file twice in S3. Raises InvalidError: P431 refused, P442 both were taken."""
    if dict(root.settings).get("conditional_put", "") == "disabled":
        raise _careless(catalog)
    try:
        taken = _second_is_taken(root)
    except OSError as error:
        raise refused(f"the catalog {catalog} at {root.uri}", told(error)) from error
    if taken:
        raise _careless(catalog)


def _second_is_taken(root: StorageRoot) -> bool:
    key = f".penstock-check-{tokens.token_hex(8)}"
    objects.put(root.uri, root.settings, key, b"first", "create")
    try:
        objects.put(root.uri, root.settings, key, b"second", "create")
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            objects.delete(root.uri, root.settings, key)
    return True


def _careless(catalog: str) -> InvalidError:
    return InvalidError(
        f"the storage of the catalog {catalog} takes a second file in the place of the first: "
        "racing commits would replace each other",
        code="P442",
        hint="use a storage that supports If-None-Match, without conditional_put: disabled; "
        "Iceberg needs no such storage",
    )
