"""Schemas inferred from records, and what records ask of the schema of a table."""
