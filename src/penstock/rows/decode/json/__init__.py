"""JSON parsed record by record with exact numbers, and block by block into Arrow."""
