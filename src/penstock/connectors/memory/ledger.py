"""The ledger of a chain in memory and the verdict of its witnesses, from contents alone."""

from __future__ import annotations

from dataclasses import replace

from penstock.connectors.memory.warehouse import Contents, Snapshot
from penstock.core import table_errors
from penstock.core.commits import (
    Chain,
    CommitKind,
    Committable,
    Landed,
    begun_beside,
    first_ledger,
    landed_after,
)
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.serialization import ledger_from_json, ledger_to_json, progress_to_json
from penstock.ports.histories import CommitRecord, CommitsBehind, History
from penstock.ports.tables import TableState, Verdict


def with_ledger(
    base: Contents, state: TableState, commit: Committable, snapshot: Snapshot
) -> Contents:
    """Return contents with a snapshot, and with the ledger that its commit leaves."""
    added = base.with_snapshot(snapshot)
    if commit.kind is CommitKind.FENCE and state.verdict is Verdict.ROLLED_BACK:
        return added
    before = state.landed or first_ledger(
        commit.chain, commit.claim, commit.cluster_id, commit.rules_hash, commit.origins
    )
    name, ledgers = commit.chain.name, dict(base.ledgers)
    ledgers[name] = ledger_to_json(landed_after(before, commit))
    for each in commit.beside:
        known = base.ledgers.get(each)
        begun = begun_beside(commit, each, None if known is None else ledger_from_json(known))
        ledgers[each] = ledger_to_json(begun)
    return replace(added, ledgers=ledgers, tags={**base.tags, name: snapshot.id})


def trimmed(contents: Contents, retain: int) -> Contents:
    """Remove own snapshots beyond `retain`, never the tagged, never foreign ones."""
    own = [each.id for each in contents.snapshots.values() if each.commit is not None]
    removed = {*own[: max(len(own) - retain, 0)]} - {*contents.tags.values(), contents.head}
    return replace(
        contents, snapshots={i: each for i, each in contents.snapshots.items() if i not in removed}
    )


def verdict_of(contents: Contents, chain: Chain, landed: Landed | None) -> tuple[Verdict, str]:
    """Decide by the table of protocol.md 3."""
    if landed is None:
        return Verdict.ABSENT, f"no ledger {chain.name}"
    if not landed.recent:
        return Verdict.AGREED, "nothing landed since the ledger was written"
    newest, _ = landed.recent[-1]
    for snapshot in contents.ancestry():
        commit = snapshot.commit
        if snapshot.vouches == contents.ledgers:
            return Verdict.AGREED, f"{snapshot.id} vouches for all ledgers"
        if commit is None or commit.chain.name != chain.name:
            continue
        if commit.commit_id == newest:
            return Verdict.AGREED, f"{snapshot.id} and the ledger agree"
        return Verdict.ROLLED_BACK, f"{snapshot.id} is older than the ledger's {newest}"
    if not contents.broken:
        return Verdict.ROLLED_BACK, f"the ledger's {newest} is not on the ancestry of the head"
    return _third_witness(contents, chain)


def require_vouched(table: str, contents: Contents) -> None:
    """Refuse a table with a chain that was rolled back, or of which nobody can tell (P846)."""
    for name, text in contents.ledgers.items():
        verdict, evidence = verdict_of(contents, Chain(name, table), ledger_from_json(text))
        if not verdict.is_sound:
            raise table_errors.not_vouched(table, name, evidence)


def _third_witness(contents: Contents, chain: Chain) -> tuple[Verdict, str]:
    tag = contents.tags[chain.name]
    newest_first = contents.log[::-1]
    since = newest_first[: newest_first.index(tag)]
    if len({*since}) == len(since) and {*since}.isdisjoint(newest_first[len(since) :]):
        return Verdict.AGREED, f"no rollback since {tag}"
    return Verdict.UNCERTAIN, f"{tag} is cut off from the head, and there was a rollback since"


def history_of(contents: Contents, chain: Chain) -> History:
    """Return the chain's commits on the ancestry of the head, and the live files."""
    others = [each for each in contents.ancestry() if each.commit is None and each.vouches is None]
    return History(
        commits=_commits(contents, chain),
        complete=not contents.broken,
        paths=[file.path for file in contents.files],
        foreign_commits=len(others),
        began=began(contents, chain),
    )


def commits_behind(contents: Contents, chain: Chain, behind: str) -> CommitsBehind:
    """Return the chain's commits behind a snapshot, "" for all that are listed."""
    listed = _commits(contents, chain)
    places = [each.snapshot for each in listed]
    begun = places.index(behind) + 1 if behind in places else 0
    return CommitsBehind(listed[begun:], follows=not behind or begun > 0)


def _commits(contents: Contents, chain: Chain) -> list[CommitRecord]:
    snapshots = [*contents.ancestry()][::-1]
    return [record_of(e) for e in snapshots if e.commit and e.commit.chain.name == chain.name]


def record_of(snapshot: Snapshot) -> CommitRecord:
    """Return what the history says of a commit."""
    commit = snapshot.commit
    assert commit is not None
    return CommitRecord(
        commit_id=commit.commit_id,
        snapshot=snapshot.id,
        timestamp_ms=snapshot.timestamp_ms,
        kind=commit.kind.value,
        progress=progress_to_json(commit.progress),
        rows=commit.rows,
        files=len(commit.files),
        valid_through_ms=commit.valid_through_ms,
    )


def began(contents: Contents, chain: Chain) -> dict[TopicPartition, Offset]:
    """Return first positions by the commits up to the first one that was trimmed."""
    began: dict[TopicPartition, Offset] = {}
    for each in contents.log:
        if each not in contents.snapshots:
            return began
        commit = contents.snapshots[each].commit
        if commit is not None and commit.chain.name == chain.name:
            for at, covered in commit.progress.items():
                began.setdefault(at, covered.start)
    text = contents.ledgers.get(chain.name)
    offsets = {} if text is None else ledger_from_json(text).offsets
    return {**offsets, **began}
