"""What the rest may expect of the outside world: protocols and the data they exchange, no code."""
