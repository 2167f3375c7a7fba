"""Protobuf: descriptors, one message at a time, and blocks as columns (docs/design/0090)."""
