"""One Iceberg commit, and what goes with it: snapshots and metadata files needed no more."""
