"""The commits of one table for one epoch, made from where it stands and what the epoch found."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.commit.chain_position import CommitLabels, commit_at
from penstock.core.accounting import Tally
from penstock.core.commits import CommitKind, Committable
from penstock.core.offsets import Positions, TopicPartition, between
from penstock.landing.tables.progress import TableProgress, epochs_after
from penstock.landing.task.results import TableResult


def commits_for(
    progress: TableProgress, found: TableResult, labels: CommitLabels
) -> list[Committable]:
    """Make the commits of one table for one epoch: its quarantine chain's first, then its own.

    A chain without files is not touched; its next commit covers the range (protocol.md 2).
    """
    examined = {**progress.examined, **found.reached}
    commits = []
    if found.rejects:
        commits.append(_quarantine_commit(progress, found, examined, labels))
    if found.files:
        assert progress.position is not None, "files are written only for tables that exist"
        covered = between(progress.position.expected, examined)
        assert covered, f"{progress.name}: rows of a range that has landed already"
        commits.append(
            commit_at(
                progress.position,
                covered,
                found.files,
                labels,
                valid_through_ms=progress.valid_through.at_ms,
                tallies=found.tallies,
                leader_epochs=epochs_after(progress, found),
            )
        )
    return commits


def anchor_for(
    progress: TableProgress,
    labels: CommitLabels,
    tallies: Mapping[TopicPartition, Tally] | None = None,
) -> Committable:
    """Make the commit that brings a trailing table's ledger level: progress, no files."""
    assert progress.position is not None, "only a table can be anchored"
    return commit_at(
        progress.position,
        between(progress.position.expected, progress.examined),
        (),
        labels,
        kind=CommitKind.ANCHOR,
        valid_through_ms=progress.valid_through.at_ms,
        tallies=tallies,
        leader_epochs=progress.leader_epochs,
    )


def _quarantine_commit(
    progress: TableProgress, found: TableResult, examined: Positions, labels: CommitLabels
) -> Committable:
    """Begin the chain where the table stands, on partitions it does not know yet."""
    known = progress.quarantine.expected
    origins = {at: offset for at, offset in progress.expected.items() if at not in known}
    covered = between({**origins, **known}, examined)
    return commit_at(progress.quarantine, covered, found.rejects, labels, origins=origins)
