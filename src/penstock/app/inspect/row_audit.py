"""Compare rows of a source with the messages of a publication, transaction by transaction.

Rows are read and encoded again. Messages are compared by key, those of a key in their order: which
partition a key has depends on how many there were, and its order does not. Of JSON that was made of
other columns than the table has now, the columns that it still has are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.app.inspect.message_schemas import with_schemas_of
from penstock.app.inspect.odd_members import Path, named, odd_members, without
from penstock.core.audit import Break
from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.core.positions import Position, SourcePartition, values_of
from penstock.core.receipts import Move, Receipt
from penstock.observe.formatting import number_of, one_line
from penstock.ports.registry import Subjects
from penstock.ports.sources import NO_LIMIT, RowReader, Rows, Source
from penstock.publishing.rejects import POISON
from penstock.rows.encode.encoder import encode
from penstock.rows.encode.rules import MessagePart, MessageRules

FOREVER = float("inf")
REASONS_MAX = 20
"""How many reasons are told why transactions are not compared."""

ByKey = dict[bytes | None, list[Any]]


@dataclass(slots=True)
class RowComparison:
    """What a comparison found: rows that were read again, breaks, and what cannot be compared."""

    source: Source
    reader: RowReader
    rules: MessageRules
    registries: Mapping[MessagePart, Subjects] = field(default_factory=dict)
    rules_hash: str = ""
    rows: int = 0
    breaks: list[Break] = field(default_factory=list)
    _skipped: dict[str, list[int]] = field(default_factory=dict)
    _odd_columns: dict[tuple[str, ...], int] = field(default_factory=dict)

    def compare(
        self,
        receipt: Receipt,
        there: Sequence[pa.RecordBatch],
        *,
        stamped: bool = False,
        compacted: bool = False,
    ) -> None:
        """Compare a transaction with the messages that stand in its targets.

        Their times are not compared where brokers `stamped` them, and some may be missing where
        they `compacted` them. Raises what the reader raises, but where rows are gone.
        """
        where = f"transaction {receipt.epoch}"
        if receipt.rejected.get(POISON):
            self.skip(receipt, "its row kills the process that reads it")
            return
        if receipt.rules_hash not in {"", self.rules_hash}:
            self.skip(receipt, "the spec had other rules then; audit with that one")
            return
        try:
            read = [each for move in receipt.moves.items() for each in self.read_again(*move)]
            rules = with_schemas_of(there, self.rules, self.source.columns(), self.registries)
            made = [encode(each.rows, rules, now_ms=0) for each in read if each.rows.num_rows]
        except (DecisionNeededError, InvalidError) as error:
            self.skip(receipt, error.message)
            return
        except UnavailableError:
            why = self._why_other(receipt)
            if not why:
                raise
            self.skip(receipt, why)
            return
        bad = sum(len(each.bad) for each in read) + sum(len(each.misfits) for each in made)
        left_out = sum(sum(each.left_out.values()) for each in read)
        filtered = sum(each.filtered for each in made) + left_out, receipt.totals.filtered
        rejected = bad, receipt.totals.rejected
        for what, (found, said) in (("filtered", filtered), ("no messages", rejected)):
            if found != said:
                fact = f"{found} rows are {what}, the receipt says {said}"
                self.breaks.append(Break("rows", where, fact))
        timed = bool(self.rules.timestamp) and not stamped
        beside = ("headers", "timestamp") if timed else ("headers",)
        sent = _by_key([each.messages for each in made], beside)
        published = _by_key(there, beside)
        if rules.is_json and sent != published:
            columns = next((each.rows.schema for each in read), pa.schema([]))
            odd = odd_members(columns, [each.messages for each in made], there)
            if odd:
                self._odd_columns[tuple(sorted(map(named, odd)))] = receipt.epoch
            if any(_is_of_key(path, rules) for path in odd):
                self.skip(receipt, "columns of its keys have other names now")
                return
            sent, published = _without(sent, odd), _without(published, odd)
        self.rows += sum(each.count for each in read)
        for reason in _differences(sent, published, compacted=compacted):
            self.breaks.append(Break("rows", where, reason))

    def skip(self, receipt: Receipt, why: str) -> None:
        """Note a transaction that cannot be compared, and why."""
        self._skipped.setdefault(why, []).append(receipt.epoch)

    def not_compared(self) -> list[str]:
        """Say what cannot be compared: each reason once, with the transactions that it is about.

        Of many reasons, as where each file is gone, the first ones are told.
        """
        skipped = [*self._skipped.items()]
        more = [epoch for _, epochs in skipped[REASONS_MAX:] for epoch in epochs]
        return [
            *(f"{transactions_in_words(own)}: {why}" for why, own in skipped[:REASONS_MAX]),
            *([f"{transactions_in_words(more)}: for reasons like these"] if more else []),
            *(
                f"columns that the table or the messages do not have, up to transaction {epoch}:"
                f" {', '.join(names)}"
                for names, epoch in self._odd_columns.items()
            ),
        ]

    def _why_other(self, receipt: Receipt) -> str:
        """Say why what a transaction read is another now, as who would go on from there is told.

        It is "" where what could not be read may pass.
        """
        ends, stands = self.source.ends(), {of: move.stop for of, move in receipt.moves.items()}
        if gone := [of for of in stands if of not in ends]:
            named = " ".join(f"{name} {each}" for name, each in values_of(gone[0]).items())
            return f"the {one_line(named)} is gone"
        try:
            self.source.plan(stands, {of: ends[of] for of in stands if of in ends}, NO_LIMIT)
        except DecisionNeededError as error:
            return error.message
        return ""

    def read_again(self, of: SourcePartition, move: Move) -> list[Rows]:
        """Read what a transaction read. Raises DecisionNeededError (P843) where that is gone."""
        start = {of: move.start} if move.start else self.source.starts("earliest")
        stretches = self.source.plan(start, {of: move.stop}, NO_LIMIT)
        is_later = move.start is None and is_trimmed(start.get(of))
        if is_later or [each.stop for each in stretches] != [move.stop]:
            raise DecisionNeededError(
                "what the source had then can no longer be told from what it has now",
                code="P843",
                hint="audit while the snapshots that were published are there",
            )
        return [each for one in stretches for each in self.reader.read(one, deadline=FOREVER)]


def is_trimmed(start: Position | None) -> bool:
    """Return whether a partition of a topic no longer begins with its first record.

    Where one that was added later began, when it was first read, no receipt says.
    """
    return start is not None and bool(values_of(start).get("offset"))


def _by_key(batches: Sequence[pa.RecordBatch], said: Sequence[str]) -> ByKey:
    """Return the values of each key, each with what else of its message is compared."""
    found: ByKey = {}
    for each in batches:
        columns = (each.column(name).to_pylist() for name in ("key", "value", *said))
        for key, value, *beside in zip(*columns, strict=True):
            found.setdefault(key, []).append((value, [one or None for one in beside]))
    if None in found:  # they go anywhere
        found[None].sort(key=str)
    return found


def _is_of_key(path: Path, rules: MessageRules) -> bool:
    """Return whether the text of a key has a member."""
    return path[0] in rules.key and (rules.key_is_object or len(path) > 1)


def transactions_in_words(epochs: Sequence[int]) -> str:
    """Name transactions by their numbers."""
    first, last = min(epochs), max(epochs)
    if first == last:
        return f"transaction {first}"
    return f"{number_of(len(epochs), 'transaction')} from {first} to {last}"


def _without(by_key: ByKey, odd: Collection[Path]) -> ByKey:
    """Return the messages without some of their members, those of no key sorted."""
    found = {
        key: [(without(value, odd), beside) for value, beside in messages]
        for key, messages in by_key.items()
    }
    if None in found:
        found[None].sort(key=str)
    return found


def agree(sent: Sequence[Any], found: Sequence[Any], *, compacted: bool) -> bool:
    """Return whether what is found was sent, in this order; of what is `compacted`, a part."""
    if not compacted:
        return sent == found
    left = iter(sent)
    return all(each in left for each in found)


def _differences(
    sent: Mapping[bytes | None, Any], found: ByKey, *, compacted: bool
) -> Iterator[str]:
    """Name at most one key; the value of a key is nothing that an audit prints."""
    wrong = [
        key
        for key in {**sent, **found}
        if not agree(sent.get(key, []), found.get(key, []), compacted=compacted)
    ]
    if wrong:
        one, other = len(sent.get(wrong[0], ())), len(found.get(wrong[0], ()))
        keys = number_of(len(wrong), "key")
        yield (
            f"the messages of {keys} are others than the rows make; of one the source has {one},"
            f" the target {other}"
        )
