"""Builds the request that gives a table a wider schema.

Invariant: the requirements name the examined table, schema and last column id, so that two changes
from one state cannot both land, and no id is given twice.

Source: Apache Iceberg table specification, "Schema Evolution".
"""

from __future__ import annotations

from pyiceberg.table import update
from pyiceberg.table.metadata import TableMetadata

from penstock.connectors.iceberg.schema.types import widened
from penstock.core.schema import Schema

_LAST_ADDED = -1


def schema_change(
    metadata: TableMetadata, wide: Schema
) -> tuple[tuple[update.TableRequirement, ...], tuple[update.TableUpdate, ...]]:
    """Return requirements and updates that make a wider schema the current one."""
    schema, _ = widened(metadata.schema(), wide, metadata.last_column_id)
    number = max((each.schema_id for each in metadata.schemas), default=0) + 1
    numbered = schema.model_copy(update={"schema_id": number})
    requirements = (
        update.AssertTableUUID(uuid=metadata.table_uuid),
        update.AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        update.AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
    )
    return requirements, (
        update.AddSchemaUpdate(schema_=numbered),
        update.SetCurrentSchemaUpdate(schema_id=_LAST_ADDED),
    )
