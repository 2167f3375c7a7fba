"""Listeners on the event stream: log lines, the progress display, the status of a pipeline.

Invariants:
- one event drives all of them (interface.md 5); none of them changes what the pipeline does;
- a listener does not raise and does no I/O that blocks: a thread writes files.
"""
