"""Envelopes of change events: Debezium, Maxwell, Canal, DMS."""
