"""Rows and live files of a Delta table, read back for audits and repairs."""
