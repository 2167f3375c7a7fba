"""`penstock test`: records in, rows out, as cases next to the spec; no broker, no catalog."""
