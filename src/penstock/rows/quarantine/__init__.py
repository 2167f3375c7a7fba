"""Rejected records as rows of the quarantine table, and what became of each."""
