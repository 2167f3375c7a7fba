"""Verified fakes that live in this process: a log, tables and a pending store.

They pass the same contract suites as the real connectors and are for tests and tiny trials; nothing
outlives the process. Foreign acts (rollback, expiry, a stranger's append, a lost leader) are plain
methods of `MemoryCluster` and `Warehouse`, so that a simulation can play them.
"""
