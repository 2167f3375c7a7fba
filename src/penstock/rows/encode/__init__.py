"""Rows of a table become messages: keys, values, times, tombstones, and the rows that are none."""
