"""The small languages inside of a spec: quantities, names and patterns, SQL expressions."""
