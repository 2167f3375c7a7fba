"""Crash points: a name for the moment before and after each durable act (protocol.md 9)."""

from __future__ import annotations

from enum import StrEnum


class CrashPoint(StrEnum):
    """Name a moment at which a crash must lose and double nothing."""

    CLAIM_BEFORE = "claim.before"
    CLAIM_AFTER = "claim.after"
    EPOCH_PLANNED = "epoch.planned"
    FILE_OPENED = "file.opened"
    FILE_WRITTEN = "file.written"
    FILE_CLOSED = "file.closed"
    RESULT_RETURNED = "result.returned"
    PREPARE_BEFORE = "prepare.before"
    PREPARE_AFTER = "prepare.after"
    CREATE_BEFORE = "create.before"
    CREATE_AFTER = "create.after"
    EVOLVE_BEFORE = "evolve.before"
    EVOLVE_AFTER = "evolve.after"
    RESOLVE_BEFORE = "resolve.before"
    RESOLVE_AFTER = "resolve.after"
    FILES_REWRITTEN = "files.rewritten"
    ROW_DELETES_WRITTEN = "row_deletes.written"
    MANIFEST_WRITTEN = "manifest.written"
    COMMIT_BEFORE = "commit.before"
    COMMIT_AFTER = "commit.after"
    QUARANTINE_BEFORE = "quarantine.before"
    QUARANTINE_AFTER = "quarantine.after"
    ANCHOR_BEFORE = "anchor.before"
    ANCHOR_AFTER = "anchor.after"
    FENCE_BEFORE = "fence.before"
    FENCE_AFTER = "fence.after"
    READ_BACK = "read-back"
    SETTLE_BEFORE = "settle.before"
    SETTLE_AFTER = "settle.after"
    HOUSEKEEP_BEFORE = "housekeep.before"
    HOUSEKEEP_AFTER = "housekeep.after"
    HEARTBEAT_BEFORE = "heartbeat.before"
    HEARTBEAT_AFTER = "heartbeat.after"
    SEND_BEFORE = "send.before"
    SEND_AFTER = "send.after"
    LEDGER_BEFORE = "ledger.before"
    LEDGER_AFTER = "ledger.after"
    END_BEFORE = "end.before"
    END_AFTER = "end.after"
    NOTE_BEFORE = "note.before"
    NOTE_AFTER = "note.after"
    DELETE_BEFORE = "delete.before"
    DELETE_AFTER = "delete.after"
    STOPPING = "stopping"
    RELEASE_BEFORE = "release.before"
    RELEASE_AFTER = "release.after"


OF_PUBLISHING = frozenset(
    {
        CrashPoint.SEND_BEFORE,
        CrashPoint.SEND_AFTER,
        CrashPoint.LEDGER_BEFORE,
        CrashPoint.LEDGER_AFTER,
        CrashPoint.END_BEFORE,
        CrashPoint.END_AFTER,
    }
)
"""Points of transactions in Kafka, which landing has none of."""

OF_UPKEEP = frozenset(
    {
        CrashPoint.NOTE_BEFORE,
        CrashPoint.NOTE_AFTER,
        CrashPoint.DELETE_BEFORE,
        CrashPoint.DELETE_AFTER,
    }
)
"""Points of sweeps, which landing has none of."""


class InjectedError(Exception):
    """An error that tests raise on purpose: no handler expects it, and no fence holds it off."""
