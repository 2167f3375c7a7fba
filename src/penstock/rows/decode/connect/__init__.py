"""JSON that carries its schema, as Kafka Connect's JsonConverter writes it."""
