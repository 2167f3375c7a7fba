"""The ledger's two forms in a Delta commit: `txn` actions, and words in the commit info.

| app id (after `penstock/<chain>/`)  | version                                               |
|-------------------------------------|-------------------------------------------------------|
| `generation`                        | the generation                                        |
| `sequence`                          | the version examined + 1: our newest commit or before |
| `<segment>/<topic id>/<partition>`  | the next offset                                       |
| `segment`                           | itself                                                |
| `valid-through`, `purged-through`   | themselves, in milliseconds                           |
| `cluster/<id>`, `rules/<hash>`      | the sequence at which it began to hold                |
| `file`                              | 63 bits of a hash: our newest voucher (entries.py)    |
| `rolled-back`                       | the sequence of a fence that reports a rollback       |
| `keyed/<keys and flags>`            | the sequence at which it began to change rows         |
| `since/<topic id>/<partition>`      | the offset from which on records are changes          |
| `compares/<topic id>/<partition>`   | where offsets are compared again after it was put back |
| `grown/<n>/<topic id>/<partition>`  | where a former partition ended as new ones were found |

Invariants:
- `generation` is in every commit of a chain, so that of two racing ones the log refuses one;
- `lastUpdated` is left out, so no retention setting forgets a transaction (protocol.md 3);
- chain, topic and cluster are percent-encoded: no chain's id is the beginning of another's;
- without the commit info, which log clean-up removes, the transactions alone hold every offset,
  generation, segment, cluster, rules and keys; owner ("" then) and recent commit ids are lost;
- a ledger of a newer version is refused, not replaced by what the transactions say.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from penstock.connectors.delta.log.reader import MARK_KEY, Entry
from penstock.core.claims import Generation
from penstock.core.commits import Chain, Committable, Keyed, Landed
from penstock.core.errors import InvalidError
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.serialization import (
    keyed_from_text,
    keyed_to_text,
    ledger_from_json,
    ledger_to_json,
    progress_from_json,
    progress_to_json,
)
from penstock.ports.histories import CommitRecord

MARK_VERSION = 1
OURS = "penstock/"
"""With this the app ids of all chains begin."""
ERA = "penstock-maintenance-era"
"""The app id of the transaction that counts the eras of a table; it is of no chain."""
GENERATION = "generation"
SEQUENCE = "sequence"
FILE = "file"
ROLLED_BACK = "rolled-back"
CREATED = "created"
REARRANGED = "rearranged"
NO_COMMITS = frozenset({CREATED, REARRANGED})
"""Kinds of marks that repeat a ledger, and are of no commit of the chain."""
KEYED = "keyed"
SINCE = "since"
COMPARES = "compares"
GROWN = "grown"
NEWER = "P190"

_BITS_63 = (1 << 63) - 1


def app_id(chain: str, *parts: str) -> str:
    """Name a transaction of a chain."""
    return "/".join(["penstock", *(quote(part, safe="") for part in (chain, *parts))])


def transactions_of(
    landed: Landed, before: Landed | None, sequence: int, paths: Iterable[str] = ()
) -> dict[str, int]:
    """Return the `txn` actions that move the ledger from `before` to `landed`."""
    found: dict[tuple[str, ...], int] = {(GENERATION,): landed.generation, (SEQUENCE,): sequence}
    known: Mapping[TopicPartition, int] = {} if before is None else before.offsets
    if before is None or before.segment != landed.segment:
        found["segment",] = landed.segment
        known = {}
    if landed.valid_through_ms is not None:
        found["valid-through",] = landed.valid_through_ms
    if landed.purged_through_ms is not None:
        found["purged-through",] = landed.purged_through_ms
    if before is None or before.cluster_id != landed.cluster_id:
        found["cluster", landed.cluster_id] = sequence
    if before is None or before.rules_hash != landed.rules_hash:
        found["rules", landed.rules_hash] = sequence
    if landed.keyed is not None:
        former = None if before is None else before.keyed
        found |= _keyed_transactions(landed.keyed, former, sequence)
    known_grown = 0 if before is None else len(before.grown)
    for number, ends in enumerate(landed.grown[known_grown:], known_grown):
        for at, offset in ends.items():
            found[GROWN, str(number), at.topic_id, str(at.partition)] = offset
    for at, offset in landed.offsets.items():
        if known.get(at) != offset:
            found[str(landed.segment), at.topic_id, str(at.partition)] = offset
    for path in list(paths)[-1:]:
        found[FILE,] = file_hash(path)
    return {app_id(landed.chain, *parts): version for parts, version in found.items()}


def _keyed_transactions(
    keyed: Keyed, before: Keyed | None, sequence: int
) -> dict[tuple[str, ...], int]:
    text = keyed_to_text(keyed)
    former = Keyed(keyed.keys, keyed.compares_offsets) if before is None else before
    found: dict[tuple[str, ...], int] = {
        (name, at.topic_id, str(at.partition)): offset
        for name, places, known in (
            (SINCE, keyed.since, former.since),
            (COMPARES, keyed.compares_from, former.compares_from),
        )
        for at, offset in places.items()
        if known.get(at) != offset
    }
    if before is None or keyed_to_text(before) != text:
        found[KEYED, text] = sequence
    return found


def fence_transactions(landed: Landed, sequence: int) -> dict[str, int]:
    """Return the `txn` actions of a fence that reports a rollback: no position moves."""
    chain = landed.chain
    return {
        app_id(chain, GENERATION): landed.generation,
        app_id(chain, SEQUENCE): sequence,
        app_id(chain, ROLLED_BACK): sequence,
    }


def landed_from(chain: str, transactions: Mapping[str, int]) -> Landed | None:
    """Read a ledger from transactions alone; None when there is none or it is torn.

    Raises InvalidError (P191) when it is of a keyed chain, and damaged.
    """
    own = _own(chain, transactions)
    if ("segment",) not in own or (GENERATION,) not in own:
        return None
    segment = own["segment",]
    return Landed(
        chain=chain,
        cluster_id=_newest(own, "cluster"),
        generation=Generation(own[GENERATION,]),
        owner="",
        segment=segment,
        rules_hash=_newest(own, "rules"),
        offsets=_positions_in(own, str(segment)),
        valid_through_ms=own.get(("valid-through",)),
        purged_through_ms=own.get(("purged-through",)),
        keyed=_keyed_in(own),
        grown=tuple(_grown_in(own)),
    )


def ledgers_in(transactions: Mapping[str, int]) -> list[Landed]:
    """Read the ledgers of all chains from transactions alone; topics go by their ids there."""
    found = (landed_from(chain, transactions) for chain in chains_in(transactions))
    return [landed for landed in found if landed is not None]


def chains_in(transactions: Mapping[str, int]) -> list[str]:
    """Name the chains that have transactions."""
    return sorted({unquote(name.split("/")[1]) for name in transactions if name.startswith(OURS)})


def mark_of_commit(
    commit: Committable, landed: Landed, sequence: int, rolled_back: str
) -> dict[str, Any]:
    """Return our words on one commit; `rolled_back` is the evidence a fence carries on, or ""."""
    return {
        "chain": commit.chain.name,
        "sequence": sequence,
        "kind": commit.kind.value,
        "commit": commit.commit_id,
        "epoch": commit.epoch,
        "progress": progress_to_json(commit.progress),
        "rows": commit.rows,
        "files": len(commit.files),
        "ledger": json.loads(ledger_to_json(landed)),
        **({"rolled_back": rolled_back} if rolled_back else {}),
    }


def mark_of_creation(landed: Landed) -> dict[str, Any]:
    """Return our words on a ledger that a table is created with."""
    ledger = json.loads(ledger_to_json(landed))
    return {"chain": landed.chain, "sequence": 0, "kind": CREATED, "ledger": ledger}


def mark_of_beginning(landed: Landed, sequence: int) -> dict[str, Any]:
    """Return our words on a ledger that a commit of a sibling shard begins as well."""
    return {**mark_of_creation(landed), "sequence": sequence}


def mark_of_rearrangement(mark: Mapping[str, Any]) -> dict[str, Any]:
    """Return our newest words on a chain as a rearrangement repeats them."""
    kept = {name: mark.get(name) for name in ("chain", "sequence", "ledger")}
    return {**kept, "kind": REARRANGED}


def commit_info(marks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what goes into the commit info under our key."""
    return {MARK_KEY: {"v": MARK_VERSION, "chains": list(marks)}}


def landed_in(mark: Mapping[str, Any]) -> Landed | None:
    """Read the ledger in our words; None when they were damaged by others.

    Raises InvalidError (P190) when it is of a newer version.
    """
    try:
        return ledger_from_json(json.dumps(mark.get("ledger")))
    except InvalidError as error:
        if error.code == NEWER:
            raise
        return None


def began(entries: Iterable[Entry], chain: Chain) -> dict[TopicPartition, Offset]:
    """Return first positions by everything recorded of a chain since the first version."""
    began: dict[TopicPartition, Offset] = {}
    for mark in (mark for entry in entries if (mark := entry.mark(chain.name))):
        landed = landed_in(mark)
        moved = progress_from_json(mark.get("progress", []))
        known = {} if landed is None else landed.offsets
        began = {**known, **{at: covered.start for at, covered in moved.items()}, **began}
    return began


def record_of(entry: Entry, mark: Mapping[str, Any]) -> CommitRecord:
    """Return what the history says of a commit, by our words on it."""
    return CommitRecord(
        commit_id=str(mark.get("commit", "")),
        snapshot=str(entry.version),
        timestamp_ms=entry.timestamp_ms,
        kind=str(mark["kind"]),
        progress=list(mark.get("progress", [])),
        rows=int(mark.get("rows", 0)),
        files=int(mark.get("files", 0)),
        valid_through_ms=None if (landed := landed_in(mark)) is None else landed.valid_through_ms,
    )


def file_hash(path: str) -> int:
    """Return a 63-bit hash of a file's path."""
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big") & _BITS_63


def _own(chain: str, transactions: Mapping[str, int]) -> dict[tuple[str, ...], int]:
    prefix = app_id(chain) + "/"
    return {
        tuple(unquote(part) for part in name.removeprefix(prefix).split("/")): version
        for name, version in transactions.items()
        if name.startswith(prefix)
    }


def _keyed_in(own: Mapping[tuple[str, ...], int]) -> Keyed | None:
    """Read how a chain changes rows; where offsets are compared, what was awaited is reached."""
    text = _newest(own, KEYED)
    if not text:
        return None
    keyed = keyed_from_text(text)
    again = {} if keyed.compares_offsets else _positions_in(own, COMPARES)
    return replace(keyed, since=_positions_in(own, SINCE), compares_from=again)


def _grown_in(own: Mapping[tuple[str, ...], int]) -> Iterator[dict[TopicPartition, Offset]]:
    for number in itertools.count():
        ends = _positions_in(own, GROWN, str(number))
        if not ends:
            return
        yield ends


def _positions_in(own: Mapping[tuple[str, ...], int], *under: str) -> dict[TopicPartition, Offset]:
    return {
        TopicPartition(parts[-2], int(parts[-1]), parts[-2]): Offset(version)
        for parts, version in own.items()
        if len(parts) == len(under) + 2 and parts[:-2] == under and parts[-1].isdecimal()
    }


def _newest(own: Mapping[tuple[str, ...], int], kind: str) -> str:
    held = [(version, parts[1]) for parts, version in own.items() if parts[:1] == (kind,)]
    return max(held)[1] if held else ""
