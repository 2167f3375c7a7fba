"""Who runs the workers: Spark, or this process for tests and tiny jobs (design/spark.md)."""
