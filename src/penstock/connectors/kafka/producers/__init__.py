"""Transactions by producers of librdkafka: one for each, as Kafka Connect has them."""
