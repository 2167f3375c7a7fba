"""Delta's types, column mapping, partition values and table features."""
