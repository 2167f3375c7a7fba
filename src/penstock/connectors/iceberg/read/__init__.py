"""Rows, live files and history of an Iceberg table, read back for audits and repairs."""
