"""The schema of a partition spec's columns, some of which the table may have dropped since.

Invariant: nothing is imported that only the driver has: workers read partition values by it.

Source: Apache Iceberg table specification, "Partition Evolution".
"""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import IntegerType, NestedField


def schema_of(metadata: TableMetadata, spec_id: int) -> Schema | None:
    """Return the newest schema that has all columns by which a spec partitions, if there is one.

    Where none has those of its void fields as well, they are integers in it.
    """
    fields = metadata.specs()[spec_id].fields
    named = {each.source_id for each in fields}
    split = {each.source_id for each in fields if not isinstance(each.transform, VoidTransform)}
    former = sorted(metadata.schemas, key=lambda each: each.schema_id, reverse=True)
    candidates = (metadata.schema(), *former)
    by_need = ((each, wanted) for wanted in (named, split) for each in candidates)
    found = next((each for each, wanted in by_need if wanted.issubset(each.field_ids)), None)
    if found is None or not (dropped := named.difference(found.field_ids)):
        return found
    # They are no nulls in it, for Avro has no union of null and null.
    integers = [
        NestedField(each, f"dropped column {each}", IntegerType()) for each in sorted(dropped)
    ]
    return Schema(*found.fields, *integers, schema_id=found.schema_id)
