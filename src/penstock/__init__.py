"""Penstock lands Kafka topics in Iceberg and Delta Lake tables, exactly once."""

__version__ = "0.1.0"
