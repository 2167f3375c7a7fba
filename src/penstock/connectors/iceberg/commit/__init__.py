"""One Iceberg commit, and what goes with it: snapshots and metadata files that are not needed any
more.
"""
