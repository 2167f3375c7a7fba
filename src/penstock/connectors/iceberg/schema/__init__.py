"""Iceberg's types, partition specs, sort orders and table features."""
