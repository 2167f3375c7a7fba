"""Records become a table's rows: what they say themselves, then what is computed for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.landing.jobs import TableJob
from penstock.rows.computing import Functions, Wanted, with_computed, without_computed
from penstock.rows.convert import Converted, convert
from penstock.rows.sorting import Sorter

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.core.offsets import TopicPartition
    from penstock.rows.opening import Readers


def converted_for(
    table: TableJob,
    batch: pa.RecordBatch,
    at: TopicPartition,
    readers: Readers,
    functions: Functions,
) -> Converted:
    """Turn the records that are a table's into its rows.

    Raises what `convert` and `with_computed` raise.
    """
    computed, options = table.computed, table.options
    own = without_computed(table.schema, computed) if computed.names else table.schema
    converted = convert(batch, at=at, schema=own, options=options, readers=readers)
    if not computed.names or table.destination is None:
        return converted
    wanted = Wanted(table.schema, options, computed, readers)
    return with_computed(converted, Sorter(batch, at), wanted, functions)
