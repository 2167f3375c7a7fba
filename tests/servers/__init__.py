"""Real servers for tests: PostgreSQL, S3, an Iceberg REST catalog. Each stops with its block."""
