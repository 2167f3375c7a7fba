"""Catalogs of PyIceberg opened with timeouts, or to be looked at only."""
