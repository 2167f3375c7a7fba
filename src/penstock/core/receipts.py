"""What a publication writes into the offsets topic with each transaction: its ledger and a receipt.

The ledger says where a task's chain of transactions stands, a receipt what one of them moved and
wrote. A receipt has a slot, its epoch modulo RECEIPT_SLOTS: compaction keeps a thousand of them.

Invariants:
- reading back what was written returns an equal value; a newer version is rejected (P190), and
  anything but the exact form is (P191);
- `counted` changes whenever a position is lost, added or changed;
- a receipt is in parts below PART_BYTES_MAX, and is read only when all parts are of one epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.core.claims import Generation
from penstock.core.commits import CommitId
from penstock.core.offsets import TopicPartition
from penstock.core.plain_data import (
    ENCODER,
    as_counts,
    as_natural,
    as_rows,
    as_text,
    as_whole,
    reading,
    refusing,
)
from penstock.core.positions import (
    RESERVED,
    OffsetKey,
    Position,
    SourcePartition,
    canonical,
    fault_of,
    key_of,
    values_of,
)

VERSION = 1
RECEIPT_SLOTS = 1000
PART_BYTES_MAX = 256_000
_DIGESTS = 1 << 128


@dataclass(frozen=True, slots=True)
class PublishedTotals:
    """What became of the source's rows: counts since a segment began, or of one transaction."""

    published: int = 0
    filtered: int = 0
    rejected: int = 0

    def plus(self, other: PublishedTotals) -> PublishedTotals:
        """Return the sum of both."""
        return PublishedTotals(
            self.published + other.published,
            self.filtered + other.filtered,
            self.rejected + other.rejected,
        )


@dataclass(frozen=True, slots=True)
class PositionsSum:
    """The number of a task's positions and a digest of all, whatever their order."""

    count: int
    digest: str


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """Where the chain of transactions of one task stands; epoch 0: nothing was published.

    `producer_id` and `producer_epoch` are the term of the transaction that wrote it, `uuid`
    is drawn when the ledger begins, `protocol` is how that transaction ended.
    `accepted_ends` are where partitions ended of which a person accepted that they lost records of
    the last receipt: the transaction that follows, and has a receipt of its own, drops them.
    """

    uuid: str
    group: str
    generation: Generation
    owner: str
    epoch: int
    commit: CommitId
    segment: int
    rules_hash: str
    producer_id: int
    producer_epoch: int
    positions: PositionsSum
    totals: PublishedTotals
    protocol: int = 2
    accepted_ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def following(self) -> tuple[int, int] | None:
        """Return the term that the coordinator has if its transaction was the last one."""
        following = self.producer_id, self.producer_epoch + (self.protocol > 1)
        return following if self.protocol else None


@dataclass(frozen=True, slots=True)
class Move:
    """The positions of a source partition before and after a transaction; None: it had none."""

    start: Position | None
    stop: Position


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches that a transaction has in one target partition; offsets are inclusive.

    `crc_sum` adds up their checksums; None where the client library tells none.
    """

    first: int
    last: int
    records: int
    count: int
    crc_sum: int | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one transaction put where, by which rules; counts of others are by reason."""

    uuid: str
    epoch: int
    segment: int
    producer_id: int
    producer_epoch: int
    published: int
    filtered: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    moves: Mapping[SourcePartition, Move] = field(default_factory=dict)
    targets: Mapping[TopicPartition, Batches] = field(default_factory=dict)
    rules_hash: str = ""

    @property
    def is_transactional(self) -> bool:
        """Return whether a term is on its batches; what was sent without transactions has 0/0.

        No transaction with a receipt has that one: the term of the begin before it was earlier.
        """
        return (self.producer_id, self.producer_epoch) != (0, 0)

    @property
    def totals(self) -> PublishedTotals:
        """Return its counts without reasons."""
        return PublishedTotals(
            self.published, sum(self.filtered.values()), sum(self.rejected.values())
        )


def ledger_key(name: str, task: int) -> OffsetKey:
    """Return the key of a task's ledger."""
    return key_of(name, {RESERVED: "ledger", "task": task})


def receipt_key(name: str, task: int, epoch: int, part: int) -> OffsetKey:
    """Return the key of a part of a receipt, in the slot of its epoch."""
    slot = epoch % RECEIPT_SLOTS
    return key_of(name, {RESERVED: "receipt", "task": task, "slot": slot, "part": part})


def counted(stands: Mapping[SourcePartition, Position]) -> PositionsSum:
    """Count a task's positions and sum the digests of each with its source partition."""
    digests = (
        int.from_bytes(hashlib.sha256(f"[{at},{position}]".encode()).digest()[:16])
        for at, position in stands.items()
    )
    return PositionsSum(len(stands), f"{sum(digests) % _DIGESTS:032x}")


def transaction_commit_id(
    group: str, name: str, task: int, segment: int, moves: Mapping[SourcePartition, Move]
) -> CommitId:
    """Derive the commit id of a transaction from what it moves: tried again it is the same."""
    rows = [[at, move.start, move.stop] for at, move in sorted(moves.items())]
    text = ENCODER.encode([group, name, task, segment, rows])
    return CommitId(hashlib.sha256(text.encode()).hexdigest()[:32])


def ledger_record_to_json(ledger: LedgerRecord) -> bytes:
    """Write a ledger as its value in the offsets topic."""
    accepted = [
        [at.topic_id, at.partition, at.topic, end]
        for at, end in sorted(ledger.accepted_ends.items())
    ]
    return _encoded(
        {
            "v": VERSION,
            "uuid": ledger.uuid,
            "group": ledger.group,
            "generation": ledger.generation,
            "owner": ledger.owner,
            "epoch": ledger.epoch,
            "commit": ledger.commit,
            "segment": ledger.segment,
            "rules": ledger.rules_hash,
            "producer": ledger.producer_id,
            "term": ledger.producer_epoch,
            "protocol": ledger.protocol,
            "positions": {"count": ledger.positions.count, "digest": ledger.positions.digest},
            "totals": asdict(ledger.totals),
        }
        | ({"accepted": accepted} if accepted else {})
    )


def ledger_record_from_json(value: bytes) -> LedgerRecord:
    """Read a ledger. Raises InvalidError: of a newer version (P190), damaged (P191)."""
    with reading(value, "ledger of a publication", VERSION) as data:
        positions, totals = data["positions"], data["totals"]
        return LedgerRecord(
            uuid=as_text(data["uuid"]),
            group=as_text(data["group"]),
            generation=Generation(as_whole(data["generation"])),
            owner=as_text(data["owner"]),
            epoch=as_natural(data["epoch"]),
            commit=CommitId(as_text(data["commit"])),
            segment=as_natural(data["segment"]),
            rules_hash=as_text(data["rules"]),
            producer_id=as_natural(data["producer"]),
            producer_epoch=as_natural(data["term"]),
            positions=PositionsSum(as_natural(positions["count"]), as_text(positions["digest"])),
            totals=PublishedTotals(
                as_natural(totals["published"]),
                as_natural(totals["filtered"]),
                as_natural(totals["rejected"]),
            ),
            protocol=as_natural(data.get("protocol", 2)),  # those before it knew one alone
            accepted_ends=dict(_end(*row) for row in as_rows(data.get("accepted", []))),
        )


def receipt_to_parts(receipt: Receipt, *, part_bytes_max: int = PART_BYTES_MAX) -> list[bytes]:
    """Write a receipt as the values of its parts, in their order; mostly it is one.

    A single row is never above the limit; the reasons of part 0 are few.
    """
    head = {
        "v": VERSION,
        "uuid": receipt.uuid,
        "epoch": receipt.epoch,
        "segment": receipt.segment,
        "producer": receipt.producer_id,
        "term": receipt.producer_epoch,
    }
    first = {
        "published": receipt.published,
        "filtered": dict(receipt.filtered),
        "rejected": dict(receipt.rejected),
    } | ({"rules": receipt.rules_hash} if receipt.rules_hash else {})
    parts: list[dict[str, Any]] = [first | {"moves": [], "targets": []}]
    room = part_bytes_max - len(_encoded(head | first)) - 100
    left = room
    for kind, row in _rows_of(receipt):
        size = len(_encoded(row)) + 1
        if size > left and left < room:
            parts.append({"moves": [], "targets": []})
            left = room
        parts[-1][kind].append(row)
        left -= size
    return [
        _encoded(head | {"part": number, "parts": len(parts)} | part)
        for number, part in enumerate(parts)
    ]


def receipt_from_parts(values: Sequence[bytes]) -> Receipt:
    """Read a receipt from the values of its parts, in their order.

    What follows its last part is of an older epoch of the slot, and passed over. Raises
    InvalidError: of a newer version (P190); damaged, a part missing or of another epoch (P191).
    """
    what = "receipt of a publication"
    read: list[dict[str, Any]] = []
    for value in values[: _parts_of(values, what)]:
        with reading(value, what, VERSION) as data:
            read.append(data)
    with refusing(what):
        first = read[0]
        for number, part in enumerate(read):
            if as_natural(part["part"]) != number or _head_of(part) != _head_of(first):
                raise ValueError(f"part {number} is of another receipt")
        moves = [row for part in read for row in as_rows(part["moves"])]
        targets = [row for part in read for row in as_rows(part["targets"])]
        uuid, epoch, segment, producer_id, producer_epoch, _ = _head_of(first)
        receipt = Receipt(
            uuid=uuid,
            epoch=epoch,
            segment=segment,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            published=as_natural(first["published"]),
            filtered=as_counts(first["filtered"]),
            rejected=as_counts(first["rejected"]),
            moves=dict(_move(*row) for row in moves),
            targets=dict(_target(*row) for row in targets),
            rules_hash=as_text(first.get("rules", "")),
        )
        if len(receipt.moves) < len(moves) or len(receipt.targets) < len(targets):
            raise ValueError("a partition is there twice")
        return receipt


def _rows_of(receipt: Receipt) -> Iterator[tuple[str, list[Any]]]:
    for at, move in sorted(receipt.moves.items()):
        start = None if move.start is None else values_of(move.start)
        yield "moves", [values_of(at), start, values_of(move.stop)]
    for to, it in sorted(receipt.targets.items()):
        place = [to.topic_id, to.partition, to.topic]
        yield "targets", [*place, it.first, it.last, it.records, it.count, it.crc_sum]


def _parts_of(values: Sequence[bytes], what: str) -> int:
    with refusing(what):
        if not values:
            raise ValueError("it has no part")
    with reading(values[0], what, VERSION) as data:
        count = as_natural(data["parts"], 1)
        if count > len(values):
            raise ValueError(f"it has {count} parts, and {len(values)} are there")
        return count


def _head_of(part: Mapping[str, Any]) -> tuple[str, int, int, int, int, int]:
    return (
        as_text(part["uuid"]),
        as_natural(part["epoch"], 1),
        as_natural(part["segment"]),
        as_natural(part["producer"]),
        as_natural(part["term"]),
        as_natural(part["parts"], 1),
    )


def _move(at: Any, start: Any, stop: Any) -> tuple[SourcePartition, Move]:
    begun = None if start is None else Position(_flat(start))
    return SourcePartition(_flat(at)), Move(begun, Position(_flat(stop)))


def _target(*row: Any) -> tuple[TopicPartition, Batches]:
    topic_id, partition, topic, first, last, records, count, crc_sum = row
    at = TopicPartition(as_text(topic_id), as_natural(partition), as_text(topic))
    return at, Batches(
        first=as_natural(first),
        last=as_natural(last, first),
        records=as_natural(records, 1),
        count=as_natural(count, 1),
        crc_sum=None if crc_sum is None else as_natural(crc_sum),
    )


def _end(topic_id: Any, partition: Any, topic: Any, end: Any) -> tuple[TopicPartition, int]:
    at = TopicPartition(as_text(topic_id), as_natural(partition), as_text(topic))
    return at, as_natural(end)


def _flat(values: Any) -> str:
    if not isinstance(values, dict) or fault_of(values):
        raise ValueError(f"a flat object was expected, not {values!r:.80}")
    return canonical(values)


def _encoded(data: Any) -> bytes:
    return ENCODER.encode(data).encode()
