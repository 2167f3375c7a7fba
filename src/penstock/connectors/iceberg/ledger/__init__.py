"""The ledger in an Iceberg table, and the witnesses that vouch for it."""
