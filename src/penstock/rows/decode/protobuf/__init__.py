"""Protobuf: descriptors, one message at a time, and blocks of messages as columns (0090)."""
