"""Ranges of partitions read over Kafka's own protocol, in columns, with no object per record."""
