"""What runs the workers: Spark, or this process for tests and tiny jobs (spark.md)."""
