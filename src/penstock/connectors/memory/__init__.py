"""Verified fakes that live in this process: a log, tables and a pending store.

They pass the same contract suites as the real connectors and are for tests and tiny trials; nothing
outlives the process.
"""
