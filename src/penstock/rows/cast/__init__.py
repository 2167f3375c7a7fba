"""Decoded values become exact values of column types, or the reason why they cannot."""
