"""`penstock demo`: the whole story in one command, with real parts and real data."""
