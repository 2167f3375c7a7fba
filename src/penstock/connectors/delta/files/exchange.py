"""The exchange of a Delta table's rows by its partition columns; opens no log."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Sequence

import pyarrow as pa

from penstock.connectors.delta.files.target import target_from_json
from penstock.connectors.delta.files.writer import safe_prefix
from penstock.files.exchange import ExchangeFiles
from penstock.files.filesystems import CREDENTIALS, filesystem_of
from penstock.files.storage_settings import path_in, resolved
from penstock.ports.runtime import Observer, Secrets
from penstock.ports.writers import Distribution

_RANDOM_BYTES = 8


def exchange_of(
    target: str, distribution: Distribution, *, observer: Observer, secrets: Secrets
) -> ExchangeFiles | None:
    """Open the exchange of a table; None where its rows are not exchanged."""
    made = target_from_json(target)
    if distribution is not Distribution.HASH or not made.partition_by:
        return None

    def path_of(prefix: str, ending: str) -> str:
        name = f"{safe_prefix(prefix)}-{randomness.token_hex(_RANDOM_BYTES)}.{ending}"
        return f"{path_in(made.location)}/{name}"

    stored = [field.name for field in made.stored.schema.fields]
    places = [stored.index(name) for name in made.partition_by]

    def keys_of(rows: pa.RecordBatch) -> Sequence[pa.Array]:
        return [rows.column(place) for place in places]

    storage = resolved(made.storage, CREDENTIALS, secrets)
    return ExchangeFiles(
        filesystem=filesystem_of(made.location, storage),
        path_of=path_of,
        keys_of=keys_of,
        observer=observer,
    )
