"""Data files of Delta tables: their metadata and statistics."""
