"""Which tables topics lead to, and what is said to names of none."""
