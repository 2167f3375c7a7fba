"""`penstock test`: records in, rows out, as cases beside the spec; no broker, no catalog."""
