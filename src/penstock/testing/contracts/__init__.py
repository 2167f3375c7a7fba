"""The contract suites of the ports: a connector passes them, or it does not hold what ports say."""
