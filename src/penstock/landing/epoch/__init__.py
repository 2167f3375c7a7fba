"""One epoch from trigger to commit: what to read, jobs run, results prepared, commits queued."""
