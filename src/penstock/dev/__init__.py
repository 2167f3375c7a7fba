"""A real Kafka broker on this machine, for trying things out, for the demo and for tests."""
