"""The transaction log of a Delta table: read, followed, written, with ledger and witnesses."""
