"""Sources that are shipped, on the port of sources of one's own alone: files, SQL."""
