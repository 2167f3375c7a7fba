"""Configurations of other systems become specs: Kafka Connect, Flink SQL, kafka-delta-ingest."""
