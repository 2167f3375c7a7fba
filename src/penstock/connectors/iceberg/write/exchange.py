"""The exchange of an Iceberg table's rows by its partition spec; opens no catalog."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.connectors.iceberg.schema.partition_values import partition_columns
from penstock.connectors.iceberg.schema.types import file_schema
from penstock.connectors.iceberg.write.distribution import is_exchanged
from penstock.connectors.iceberg.write.new_files import NewFiles
from penstock.connectors.iceberg.write.target import target_from_json
from penstock.files.exchange import ExchangeFiles
from penstock.ports.runtime import Observer, Secrets
from penstock.ports.writers import Distribution


def exchange_of(
    target: str, distribution: Distribution, *, observer: Observer, secrets: Secrets
) -> ExchangeFiles | None:
    """Open the exchange of a table; None where its rows are not exchanged."""
    made = target_from_json(target)
    if not is_exchanged(made, distribution):
        return None
    files, schema = NewFiles(made, secrets), file_schema(made.shape.schema)
    values_of = partition_columns(made.shape.spec, made.shape.schema)

    def keys_of(rows: pa.RecordBatch) -> Sequence[pa.Array]:
        return values_of(rows.select(schema.names).cast(schema))

    return ExchangeFiles(
        filesystem=files.filesystem, path_of=files.path, keys_of=keys_of, observer=observer
    )
