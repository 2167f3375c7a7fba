"""`penstock seek` of a publication: it goes on from other positions, in a new segment.

Rows before a position that is put back are published again, those before one that is put forward
never. It is also the way out where the offsets topic lost positions, went back, or is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

from penstock.app.assembly import publishing
from penstock.app.assembly.crash_points import from_environment, observer_for
from penstock.app.inspect.publication_words import place_in_words
from penstock.app.inspect.publications import PublicationMove, lost_target
from penstock.app.inspect.sought import all_receipts, consequence
from penstock.app.publish import rules_named
from penstock.app.repair.confirmed_change import Change, Step
from penstock.core.errors import InvalidError, PenstockError
from penstock.core.receipts import Receipt
from penstock.core.resuming import Accepted
from penstock.engines.inline import InlineEngine
from penstock.observe.fanout import Observers
from penstock.observe.formatting import number_of, one_line
from penstock.ports.sources import Source, Stands
from penstock.publishing.own_rows import BEGINNING
from penstock.publishing.places import part_words
from penstock.publishing.record import PublicationRecord, standing_record
from penstock.publishing.settings import Publication
from penstock.publishing.start import Run, claimed, start
from penstock.spec.publications import Publications

EVERYTHING_FOUND = (*Accepted, publishing.GAP)


def plan_seek(spec: Publications, name: str, words: Sequence[str]) -> Change:
    """Return what a seek would do. Writes nothing. Raises InvalidError (P172, P817, P818, P825)."""
    publication = _publication(spec, name)
    with ExitStack() as stack:
        ports = publishing.open_ports(publication, stack)
        record = standing_record(name, ports.producers.ledger)
        moves = moves_of(publication, ports.source, record, words)
        receipts = all_receipts(name, record)
        steps = [
            step for move in moves for step in _steps(publication, move, ports.source, receipts)
        ]
        if lost := lost_target(publication, ports, record):
            text = f"{name}: {lost.message}; it goes on without"
            steps.append(Step(one_line(text), destructive=True))
        if not record.is_whole:
            text = f"{name}: its offsets topic is not whole; these are all its positions then"
            steps.append(Step(text, destructive=True))
    return Change(spec.name, tuple(steps))


def seek(spec: Publications, name: str, words: Sequence[str]) -> tuple[PublicationMove, ...]:
    """Put a publication to other positions, in one transaction.

    Raises UnavailableError (P510) while a run is alive, and as `plan_seek` and a start do.
    """
    publication, engine = _publication(spec, name), InlineEngine(publishing.PUBLISHING_WORK)
    observer = Observers(observer_for(from_environment()))
    with ExitStack() as stack:
        environment = publishing.open_publishing(
            spec, publication, stack, engine=engine, observer=observer
        )
        source, ledger = environment.ports.source, environment.ports.producers.ledger
        claim = claimed(publication, environment, takeover=False)
        try:
            moves = moves_of(publication, source, standing_record(name, ledger), words)
            placed = replace(publication, places={each.of: each.stop for each in moves})
            start(Run(placed, environment, claim))
        finally:
            claim.close()
            with suppress(PenstockError):  # it is advisory, and ends by itself
                claim.release()
    return moves


def no_replay(spec: Publications, name: str) -> InvalidError:
    """Return the error for a replay of a publication. Raises InvalidError (P825)."""
    (rule,) = rules_named(spec, [name])
    return InvalidError(
        f"the publication {name} is not replayed: nothing takes what it sent out of the topic"
        f" {rule.into} again",
        code="P884",
        hint=f"send all from a place on once more, next to what is there:  penstock seek {name}"
        " PLACE",
    )


def moves_of(
    publication: Publication, source: Source, record: PublicationRecord, words: Sequence[str]
) -> tuple[PublicationMove, ...]:
    """Return which positions change.

    Raises InvalidError: of what `words` name (P172, P817), and where positions were lost that none
    of them names (P818).
    """
    if not words:
        raise InvalidError(
            f"a seek of {publication.name} says where it goes on",
            code="P172",
            hint=f"penstock seek {publication.name} earliest,  latest,  or places",
        )
    places = source.places([*words])
    if not record.is_whole and (missing := source.ends().keys() - places.keys()):
        raise InvalidError(
            f"the offsets topic of {publication.name} is not whole, and {len(missing)} source"
            " partitions would begin anew",
            code="P818",
            hint="name a position for each:  earliest,  latest,  or all of them",
        )
    return tuple(
        PublicationMove(of, record.stands.get(of), to)
        for of, to in sorted(places.items())
        if record.stands.get(of) != to or not record.is_whole
    )


def _publication(spec: Publications, name: str) -> Publication:
    (rule,) = rules_named(spec, [name])
    return publishing.publication_of(spec, rule, accept=EVERYTHING_FOUND)


def _steps(
    publication: Publication, move: PublicationMove, source: Source, receipts: Sequence[Receipt]
) -> Iterator[Step]:
    of = publication.source_name if publication.reads_table else one_line(part_words(move.of))
    name, to = publication.name, place_in_words(publication, move.stop)
    if move.start is None:
        yield Step(f"{name}: {of} begins {to}")
        return
    text = f"{name}: {of} goes on {to}, not {place_in_words(publication, move.start)}"
    if publication.reads_own:
        yield Step(f"{text}: {_own_words(move)}", destructive=True)
        return
    if publication.reads_topic:
        words = consequence(receipts, move.of, move.start, move.stop).words
        yield Step(f"{text}: {words}" if words else text, destructive=bool(words))
        return
    before: Stands = {move.of: move.start}
    after: Stands = {move.of: move.stop}
    again, skipped = source.count(after, before), source.count(before, after)
    if again:
        yield Step(f"{text}: {number_of(again, 'row')} are published again", destructive=True)
    else:
        yield Step(
            f"{text}: {number_of(skipped, 'row')} are not published", destructive=bool(skipped)
        )


def _own_words(move: PublicationMove) -> str:
    """Say what becomes of the rows between; whose positions are, only the source knows."""
    if move.stop == BEGINNING:
        return "its rows are published again"
    return "the rows between are published again, or not at all"
