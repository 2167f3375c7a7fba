"""Names of columns that Iceberg's readers keep for their metadata.

Spark reads nothing at all of a table with one of them ("Table column names conflict with names
reserved for Iceberg metadata columns"), and merges nothing into it where the name differs in case.
Those of changelogs (`_change_type`, `_change_ordinal`, `_commit_snapshot_id`) are read well.

Source: Apache Iceberg table specification, "Reserved Field IDs";
`org.apache.iceberg.MetadataColumns` in 1.11.
"""

from __future__ import annotations

RESERVED = (
    "_file",
    "_pos",
    "_deleted",
    "_spec_id",
    "_partition",
    "_row_id",
    "_last_updated_sequence_number",
)
