"""Transactions of a real cluster: terms, the offsets topic, and what is open."""
