"""Catalogs of PyIceberg opened with timeouts, or read-only."""
