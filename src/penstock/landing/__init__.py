"""The coordinator's loop and the worker's body: plan, work, prepare, commit."""
