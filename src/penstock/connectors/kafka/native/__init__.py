"""Ranges of partitions read over Kafka's own protocol, split into columns without an object per
record.
"""
