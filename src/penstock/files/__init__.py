"""Parquet files: row groups buffered, files rolled, open writers bounded; knows no table format."""
