"""Parquet files: written in row groups of good size, by partition, durable before they are told."""

from penstock.files.parquet import ParquetOptions, PartitionedParquetWriter, Written

__all__ = ["ParquetOptions", "PartitionedParquetWriter", "Written"]
