"""Which table a record belongs to, and which columns are computed for it."""
