"""The worker's side of an Iceberg table: what a task is given, and its writer."""
