"""A batch of records becomes the rows of one table, and rejects."""
