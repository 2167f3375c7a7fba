"""What publications stand at, and what the next run would do with each. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.app.assembly import assembly, publishing
from penstock.app.assembly.process import SystemClock
from penstock.app.assembly.producers import open_producers
from penstock.app.assembly.state_folder import state_folder
from penstock.app.assembly.topic_rows import RECORDS, absent_fields, kept_topic_rows
from penstock.app.inspect.forerunners import forerunners
from penstock.app.inspect.publication_sample import (
    NOTHING_SAMPLED,
    PublicationSample,
    sampled,
)
from penstock.app.inspect.publication_words import (
    client_words,
    in_words,
    places_in_words,
    rate_words,
)
from penstock.app.publish import rules_named
from penstock.core.claims import Generation
from penstock.core.errors import DecisionNeededError, PenstockError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.positions import Position, SourcePartition
from penstock.core.resuming import Accepted, Resume, lost_ends
from penstock.observe.formatting import one_line
from penstock.observe.last_stops import LastStop, last_stop
from penstock.ports.producers import NewTopic
from penstock.ports.reports import Reports
from penstock.ports.sources import NO_LIMIT, EpochLimit, Stands, Stretch
from penstock.publishing.deciding import Noticed, decided, ends_of
from penstock.publishing.own_rows import OPEN
from penstock.publishing.pace import Pace
from penstock.publishing.places import part_words, place_words
from penstock.publishing.preflight import preflight
from penstock.publishing.record import PublicationRecord, standing_record, totals_of
from penstock.publishing.schemas import SchemaStanding, standing_rules, standing_schemas
from penstock.publishing.settings import Publication, PublicationPorts
from penstock.publishing.start import begun_from
from penstock.publishing.stops import hanging, naming
from penstock.publishing.topic_rows import SAMPLE_RECORDS_MAX
from penstock.rows.convert.absent_fields import AbsentFields
from penstock.rows.encode.rules import MessageRules
from penstock.spec.publications import Publications

NEWEST = Generation(2**62)
"""A run that begins now claims above all that are known."""


@dataclass(frozen=True, slots=True)
class PublicationMove:
    """From where to where a source partition would be published; None: it has no position yet.

    `words` say it to people.
    """

    of: SourcePartition
    start: Position | None
    stop: Position
    words: str = ""


TARGET_LOST = "P808"
BEHIND = frozenset({"P810", "P811"})
"""Codes of a ledger that is older than what stands in the target."""


@dataclass(frozen=True, slots=True)
class PublicationView:
    """One publication: what it has published, and what a run would do.

    `epoch` counts its transactions, `published`, `filtered` and `rejected` the records in all, or
    at least so many where `counts_are_least`; None: they could not be read. `rejects` is the topic
    of the last. `stands` says where it stands in a table or a source of one's own, `positions` are
    those of all parts of any source, as a seek takes them, `messages` say how rows become messages,
    `schemas` how their schemas stand in registries. `begins` says whether a run begins it,
    `creates` which topics it creates, and with what, `accepts` what it goes on without, `problem`
    why it would not go on, `stopped` why the last run did not. `absent` are fields that no record
    of a sample has. `client` says who writes. `owner` is the run that began last. `rate` is the
    most that it sends. Where `is_least`, more than the `backlog` may wait: a source of one's own is
    not counted; one that `is_empty` has no part at all. `sample` is what becomes of the next
    records, and `has_other_rules` says that the last run had others. `forerunners` are
    publications that have published into the target of one that begins, and are not in the spec.
    """

    publication: str
    source: str
    into: str
    transactional_id: str
    offsets_topic: str
    client: str = ""
    epoch: int | None = None
    published: int | None = None
    filtered: int | None = None
    rejected: int | None = None
    counts_are_least: bool = False
    rejects: str = ""
    stands: str = ""
    positions: Stands = field(default_factory=dict)
    owner: str = ""
    begins: bool = False
    creates: Mapping[str, NewTopic] = field(default_factory=dict)
    accepts: tuple[str, ...] = ()
    schemas: tuple[SchemaStanding, ...] = ()
    messages: MessageRules | None = None
    rate: str = ""
    backlog: int | None = None
    transactions: int | None = None
    is_least: bool = False
    is_empty: bool = False
    moves: tuple[PublicationMove, ...] = ()
    problem: PenstockError | None = None
    stopped: LastStop | None = None
    absent: AbsentFields = field(default_factory=AbsentFields)
    sample: PublicationSample = NOTHING_SAMPLED
    has_other_rules: bool = False
    forerunners: tuple[str, ...] = ()


class Beginning(NamedTuple):
    """From where a run goes on, whether it `begins` a publication, and which topics it creates."""

    stands: Stands
    begins: bool
    creates: Mapping[str, NewTopic]


def view_publications(
    spec: Publications,
    names: Collection[str] = (),
    *,
    accept: Collection[str] = (),
    samples: bool = False,
) -> list[PublicationView]:
    """Look at the named publications, or all; what cannot be opened is a `problem`, too.

    Where it `samples`, it looks at some records, too, and at who has published before one that
    begins. Raises InvalidError (P825).
    """
    views, now_ms = [], SystemClock().now_ms()
    for rule in rules_named(spec, names):
        publication = publishing.publication_of(spec, rule, accept=accept)
        with ExitStack() as stack:
            try:
                ports = publishing.open_ports(publication, stack)
                view = view_of(publication, ports)
                if samples and view.begins:
                    filled, known = _filled(ports, view), {each.name for each in spec.publish}
                    view = replace(view, forerunners=forerunners(publication, filled, known))
                if samples and RECORDS in publication.source and view.problem is None:
                    view = _sampled(publication, ports, view)
            except PenstockError as error:
                problem = naming(publication, error)
                view = replace(_unopened(publication, error), problem=problem)
        views.append(view)
    with _reports(spec) as reports:
        stops = [
            last_stop(state_folder(spec), spec.name, each.publication, reports, now_ms)
            for each in views
        ]
    return [replace(view, stopped=stop) for view, stop in zip(views, stops, strict=True)]


@contextmanager
def _reports(spec: Publications) -> Iterator[Reports | None]:
    """Open what runs say of themselves beside the store; None where that cannot be opened."""
    try:
        reports = assembly.open_reports(spec)
    except PenstockError:
        reports = None
    with nullcontext() if reports is None else closing(reports):
        yield reports


def _named(publication: Publication) -> PublicationView:
    """Return what the spec says of a publication."""
    return PublicationView(
        publication=publication.name,
        source=publication.source_name,
        into=publication.into,
        transactional_id=publication.transactional_id,
        offsets_topic=publication.offsets_topic,
        messages=publication.messages,
        rejects=publication.rejects.into if publication.rejects else "",
        rate=rate_words(publication.rate),
    )


def _unopened(publication: Publication, error: PenstockError) -> PublicationView:
    """Return what the offsets topic says of a publication whose source or target is not opened."""
    view = _named(publication)
    if not isinstance(error, UnavailableError):  # else the cluster may not answer a second time
        with suppress(PenstockError), closing(open_producers(publication)) as producers:
            return _recorded(publication, standing_record(publication.name, producers.ledger), view)
    return view


def _recorded(
    publication: Publication, record: PublicationRecord, view: PublicationView
) -> PublicationView:
    """Add what was published."""
    totals, is_all = totals_of(publication.name, record)
    return replace(
        view,
        epoch=sum(each.epoch for each in record.ledgers),
        published=totals.published,
        filtered=totals.filtered,
        rejected=totals.rejected,
        counts_are_least=not is_all,
        owner=record.ledger.owner if record.ledger else "",
        stands=in_words(publication, record.stands) if record.ledger else "",
        positions=record.stands if record.ledger else {},
    )


def view_of(publication: Publication, ports: PublicationPorts) -> PublicationView:
    """Look at one publication; what keeps it from going on is its `problem`."""
    client = client_words(publication, ports.producers.terms.protocol)
    view = replace(_named(publication), client=client)
    try:
        ports.producers.terms.check()
        record = standing_record(publication.name, ports.producers.ledger)
        view = replace(
            _recorded(publication, record, view),
            has_other_rules=_has_other_rules(publication, record),
        )
        found = beginning_of(publication, ports, record)
        client = client_words(publication, ports.producers.terms.protocol, found.stands)
        view = replace(view, client=client, begins=found.begins, creates=found.creates)
        view = replace(view, schemas=standing_schemas(publication, ports))
        view = replace(view, accepts=tuple(_accepted(publication, ports, record, found)))
        return _planned(publication, ports, found.stands, view)
    except PenstockError as error:
        return replace(view, problem=naming(publication, error))


def beginning_of(
    publication: Publication, ports: PublicationPorts, record: PublicationRecord
) -> Beginning:
    """Return how a run that begins now would begin. Raises what a start raises."""
    creates = preflight(publication, ports, record)
    decision = decision_on(publication, ports, record, missing=creates)
    stands = begun_from(publication, ports.source, record, decision)
    return Beginning(stands, decision is Resume.BEGIN, creates)


def _accepted(
    publication: Publication, ports: PublicationPorts, record: PublicationRecord, found: Beginning
) -> Iterator[str]:
    """Say what a run that begins now goes on without, as was accepted, and from where it does."""
    facts = []
    if Accepted.TARGET in publication.accept:
        ends = ends_of(ports, record, without=found.creates)
        lost = {
            at.topic
            for last, ledger in zip(record.lasts, record.ledgers, strict=True)
            for at in lost_ends(last, ledger.accepted_ends, ends)
        }
        facts += [f"{each} lost what was published" for each in sorted(lost)]
    if publication.accept_gap and (fault := ports.source.fault(record.stands)):
        facts.append(fault)
    for fact in facts:
        yield one_line(f"{fact}; goes on: {places_in_words(publication, found.stands)}")


def decision_on(
    publication: Publication,
    ports: PublicationPorts,
    record: PublicationRecord,
    *,
    missing: Collection[str] = (),
) -> Resume:
    """Decide as a run that begins now would. Raises what a start raises."""
    noticed = _noticed(publication, ports, record)
    if record.undecided:
        _require_decided(publication, ports, record, noticed)
    ends = ends_of(ports, record, without=missing)
    try:
        return decided(publication, ports, NEWEST, record, noticed, ends=ends, missing=missing)
    except DecisionNeededError as error:
        if error.code not in BEHIND or not has_gone_on(publication, ports, record):
            raise
        return Resume.GO_ON


def lost_target(
    publication: Publication, ports: PublicationPorts, record: PublicationRecord
) -> PenstockError | None:
    """Return the error (P808) of targets that lost what was published, unless a run accepted it."""
    asked = replace(publication, accept=publication.accept - {Accepted.TARGET})
    try:
        decision_on(asked, ports, record)
    except PenstockError as error:
        return naming(publication, error) if error.code == TARGET_LOST else None
    return None


def has_gone_on(
    publication: Publication, ports: PublicationPorts, record: PublicationRecord
) -> bool:
    """Return whether a run has published since a record was read, which has nothing of that."""
    return standing_record(publication.name, ports.producers.ledger).ledgers != record.ledgers


def _noticed(
    publication: Publication, ports: PublicationPorts, record: PublicationRecord
) -> dict[int, Noticed]:
    """Ask what coordinators remember of the ids of tasks; nothing is fenced."""
    remembered = ports.producers.terms.remembered
    tasks = range(max(len(record.ledgers), 1))
    return {task: Noticed(remembered(publication.id_of(task))) for task in tasks}


def _require_decided(
    publication: Publication,
    ports: PublicationPorts,
    record: PublicationRecord,
    noticed: Mapping[int, Noticed],
) -> None:
    """Raise DecisionNeededError (P803) where a transaction hangs that none of our ids has open.

    A run that is alive may end one between two looks: then its term is another one.
    """
    again = standing_record(publication.name, ports.producers.ledger)
    is_ours = any(
        each.remembered is not None and each.remembered.is_open for each in noticed.values()
    )
    if again.undecided and not is_ours and noticed == _noticed(publication, ports, record):
        raise hanging(publication)


def _planned(
    publication: Publication, ports: PublicationPorts, stands: Stands, view: PublicationView
) -> PublicationView:
    """Add what a run would publish from these positions on."""
    ends = ports.source.ends()
    stretches = ports.source.plan(stands, ends, NO_LIMIT)
    backlog = ports.source.count(stands, ends)
    limit = Pace(publication.rate, publication.interval_seconds).limit(publication.limit)
    return replace(
        view,
        backlog=backlog,
        transactions=-(-backlog // limit.rows_max),
        is_least=publication.reads_own,
        is_empty=publication.reads_own and not ends,
        moves=tuple(_move(each, stands) for each in stretches),
    )


def _has_other_rules(publication: Publication, record: PublicationRecord) -> bool:
    """Return whether what is published was published by other rules, of which a digest is known."""
    ledger = record.ledger
    return ledger is not None and ledger.epoch > 0 and ledger.rules_hash != publication.rules_hash


def _sampled(
    publication: Publication, ports: PublicationPorts, view: PublicationView
) -> PublicationView:
    """Add what becomes of the next records, and with what a run ends that finds them so."""
    stretches, rules = _next_stretches(publication, ports), standing_rules(publication, ports)
    assert rules is not None, "records are read as rows"
    reader = kept_topic_rows(publication.source)
    sample = sampled(publication, rules, reader, stretches, SystemClock())
    ends = sample.ends and naming(publication, sample.ends)
    absent = absent_fields(publication, stretches)
    return replace(view, absent=absent, sample=sample, problem=ends)


def _filled(ports: PublicationPorts, view: PublicationView) -> set[TopicPartition]:
    """Return the partitions of the target that have had records."""
    listed = ports.targets.partitions(without=view.creates)
    bounds = ports.targets.bounds([at for at in listed if at.topic == view.into])
    return {at for at, each in bounds.items() if each.stop > 0}


def next_absent_fields(publication: Publication, ports: PublicationPorts) -> AbsentFields:
    """Return the fields that a publication reads, and that none of the next records has."""
    return absent_fields(publication, _next_stretches(publication, ports))


def _next_stretches(publication: Publication, ports: PublicationPorts) -> Sequence[Stretch]:
    """Return what a sample is read of: as many records as are looked at."""
    record = standing_record(publication.name, ports.producers.ledger)
    stands = beginning_of(publication, ports, record).stands
    limit = EpochLimit(SAMPLE_RECORDS_MAX, publication.limit.bytes_max)
    return ports.source.plan(stands, ports.source.ends(), limit)


def _move(stretch: Stretch, stands: Stands) -> PublicationMove:
    start = place_words(stretch.start)
    way = f"from {start} on" if stretch.stop == OPEN else f"{start} → {place_words(stretch.stop)}"
    words = one_line(f"{part_words(stretch.of)}: {way}")
    return PublicationMove(stretch.of, stands.get(stretch.of), stretch.stop, words)
