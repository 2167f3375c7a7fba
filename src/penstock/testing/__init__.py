"""What the author of a connector proves it with: contract suites, and small prepared data."""
