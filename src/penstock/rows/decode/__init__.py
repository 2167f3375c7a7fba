"""Bytes become values: compression, schema ids, JSON, Avro, Connect, Protobuf, envelopes."""
