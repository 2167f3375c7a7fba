"""The text of a spec: YAML with places, and lines in which secrets are masked."""
