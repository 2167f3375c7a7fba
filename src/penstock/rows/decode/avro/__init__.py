"""Avro: schemas, one datum at a time, and blocks of datums as columns (docs/design/0030)."""
