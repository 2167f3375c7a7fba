"""The blocks of a spec as strict, frozen models."""
