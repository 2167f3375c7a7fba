"""The interfaces of the outside world: protocols and the data they exchange, no code."""
