"""Which process may commit for a pipeline: the claim and its heartbeat, fencing of others."""
