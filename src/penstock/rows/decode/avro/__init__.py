"""Avro: schemas, one datum at a time, and blocks of datums as columns (design decision 0030)."""
