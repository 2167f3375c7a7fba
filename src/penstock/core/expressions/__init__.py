"""Expressions that tables hold about their rows: a subset of Spark SQL, read into typed trees."""
