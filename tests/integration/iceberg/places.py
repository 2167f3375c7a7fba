"""A class that places files, as a table may name one."""

from __future__ import annotations

from pyiceberg.partitioning import PartitionKey
from pyiceberg.table.locations import SimpleLocationProvider


class ByTenant(SimpleLocationProvider):
    """Puts data into a folder that a property of the table names; `elsewhere`: not all of it."""

    def new_data_location(
        self, data_file_name: str, partition_key: PartitionKey | None = None
    ) -> str:
        placed = super().new_data_location(data_file_name, partition_key)
        tenant = self.table_properties["places.tenant"]
        if tenant == "elsewhere" and data_file_name != "x":
            return placed.replace("file://", "s3://bucket")
        return placed.replace("/data/", f"/data/{tenant}/")
