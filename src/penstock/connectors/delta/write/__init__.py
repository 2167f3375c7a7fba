"""The worker's side of a Delta table: what a task is given, and its writer."""
