"""The tables of a run: opened, created, widened, parked, and how far each has come."""
