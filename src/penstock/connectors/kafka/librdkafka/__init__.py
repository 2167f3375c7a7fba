"""Ranges of partitions read through librdkafka, message by message."""
