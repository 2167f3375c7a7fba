"""Parquet files: row groups of good size, by partition, durable before they are reported."""

from penstock.files.encoding import FileOptions
from penstock.files.parquet import ParquetEncoding
from penstock.files.partitioned import PartitionedWriter, Written

__all__ = ["FileOptions", "ParquetEncoding", "PartitionedWriter", "Written"]
