"""Recompute the rows of a keyed table from Kafka, and compare them with the table's."""
