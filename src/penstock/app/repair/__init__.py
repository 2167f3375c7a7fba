"""Commands that change a pipeline by hand: quarantine, replay, load, seek, each with its plan and
consent.
"""
