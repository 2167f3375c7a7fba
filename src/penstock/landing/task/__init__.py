"""One task on a worker: the messages it gets and gives, records routed, converted and written."""
