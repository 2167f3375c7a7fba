"""The partition spec of rows that land late: without a field, and not the table's own.

Theory of operation: a data file names the spec that it was written for. A table that rows land late
in has a second one without fields; maintenance moves their rows to the table's own. The catalog
gives the second its id, so files are described by a number that no spec has, and the property
`penstock.late-spec` says which it is (docs/design/0320).

Invariants:
- the table's own spec stays as it is, and stays the one that other writers write by;
- a spec with a field, or the table's own, is never taken for it, whatever the property says.

Source: Apache Iceberg table specification, "Partition Evolution".
"""

from __future__ import annotations

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import update
from pyiceberg.table.metadata import TableMetadata

from penstock.connectors.iceberg.ledger.properties import LATE_SPEC
from penstock.core.commits import DataFile

LATE = PartitionSpec(spec_id=-1)
"""What a writer writes late rows by."""


def is_late(file: DataFile) -> bool:
    """Return whether a file that was described holds late rows."""
    return f'"spec":{LATE.spec_id},' in file.detail  # its texts are base64


def late_spec_id(metadata: TableMetadata) -> int | None:
    """Return the id of the spec of late rows, where a table has one."""
    text = metadata.properties.get(LATE_SPEC, "")
    spec = metadata.specs().get(int(text)) if text.isdecimal() else None
    if spec is None or spec.fields or spec.spec_id == metadata.default_spec_id:
        return None
    return int(spec.spec_id)


def spec_of(metadata: TableMetadata, spec_id: int) -> PartitionSpec:
    """Return the spec that a file was written by. Raises KeyError where the table has it not."""
    if spec_id != LATE.spec_id:
        return metadata.specs()[spec_id]
    if not metadata.spec().fields:  # it is partitioned no more
        return metadata.spec()
    found = late_spec_id(metadata)
    if found is None:
        raise KeyError(LATE_SPEC)
    return metadata.specs()[found]


def added_spec(metadata: TableMetadata) -> tuple[update.TableUpdate, ...]:
    """Return the updates by which late rows may land in a table; none where they may already.

    A spec without fields that the table had before is taken: a table has none of them twice.
    """
    if late_spec_id(metadata) is not None or not metadata.spec().fields:
        return ()
    specs = metadata.specs()
    there = next((each for each in specs.values() if not each.fields), None)
    spec_id = max(specs) + 1 if there is None else there.spec_id
    named = update.SetPropertiesUpdate(updates={LATE_SPEC: str(spec_id)})
    if there is not None:
        return (named,)
    return update.AddPartitionSpecUpdate(spec=PartitionSpec(spec_id=spec_id)), named
