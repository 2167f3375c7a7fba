"""Commands that change a pipeline by hand: quarantine, replay, seek, each with its plan and
consent.
"""
