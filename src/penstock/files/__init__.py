"""Parquet files: row groups of good size, by partition, durable before they are reported."""

from penstock.files.parquet import ParquetOptions, PartitionedParquetWriter, Written

__all__ = ["ParquetOptions", "PartitionedParquetWriter", "Written"]
