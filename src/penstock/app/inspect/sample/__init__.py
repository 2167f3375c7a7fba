"""A sample of what waits in Kafka, run through the workers' own code without writing anything."""
