"""Bytes become rows, in Arrow: batches and resolved schemas in, batches out, no I/O."""
