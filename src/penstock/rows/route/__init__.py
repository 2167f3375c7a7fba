"""Routes records to tables, and computes columns for them."""
