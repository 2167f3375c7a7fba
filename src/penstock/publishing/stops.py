"""The errors of a publication that may not go on: what was found, and what to do."""

from __future__ import annotations

from penstock.core.errors import (
    DecisionNeededError,
    FencedError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.core.resuming import Stopped, StopReason
from penstock.core.table_errors import TABLE_MISSING
from penstock.ports.sources import Source, Stands
from penstock.publishing.settings import Publication


def naming(publication: Publication, error: PenstockError) -> PenstockError:
    """Return the error, which says of which publication it is."""
    if publication.name not in error.message:
        error.message = f"publication {publication.name}: {error.message}"
        error.args = (error.message,)
    if error.code == TABLE_MISSING and publication.reads_table:
        error.hint = "restore it, or correct  from.table  in the spec"
    return error


def never_there(publication: Publication) -> InvalidError:
    """Return the error for a table of which nothing was published, and which is not there."""
    return InvalidError(
        f"the table {publication.source_name}, which {publication.name} publishes, is not in its"
        " catalog",
        code="P898",
        hint="create it, or correct  from.table  in the spec",
    )


def not_made_yet(publication: Publication) -> UnavailableError:
    """Return the error for a quarantine that no run has made yet: it is waited for."""
    return UnavailableError(
        f"the quarantine {publication.source_name} is not there yet: nothing was rejected so far",
        code="P889",
        hint="run the pipeline, whose first start makes it:  penstock run",
    )


def fenced(name: str, fact: str) -> FencedError:
    """Return the error of a run that a newer one has replaced."""
    return FencedError(
        f"a newer run publishes {name}: {fact}",
        code="P804",
        hint="leave it to that run; do not start this one again",
    )


def hanging(publication: Publication) -> DecisionNeededError:
    """Return the error of an offsets topic in which a transaction stays open that nobody ends."""
    return DecisionNeededError(
        f"a transaction of the publication {publication.name} hangs in its offsets topic"
        f" {publication.offsets_topic}",
        code="P803",
        hint="find it, and end it:  penstock transactions --cluster",
    )


def alive(fact: str) -> UnavailableError:
    """Return the error of a claim that is not got while another run is alive."""
    hint = "stop it there, or take over:  penstock publish --takeover"
    return UnavailableError(fact, code="P510", hint=hint)


def require_source(
    publication: Publication,
    source: Source,
    stands: Stands,
    *,
    instead_of: PenstockError | None = None,
) -> None:
    """Raise DecisionNeededError (P812) where a source cannot be read from its positions."""
    if fault := source.fault(stands):
        raise stopped(publication, Stopped(StopReason.SOURCE, fault)) from instead_of


def _lost(publication: Publication, found: Stopped) -> DecisionNeededError:
    """Return the error for topics that lost records, or that the spec has not any more."""
    name, former = publication.name, sorted(found.topics - {*publication.written})
    if former:
        return DecisionNeededError(
            f"the last transaction of {name} wrote into {' and '.join(former)}, which the spec does"
            f" not name any more: now it writes into {' and '.join(publication.written)}",
            code="P808",
            hint="name it again, as  into  or  rejects.into;  or, to leave there what is there, and"
            " go on without it:  penstock publish --accept target",
        )
    return DecisionNeededError(
        f"the topic {' and '.join(sorted(found.topics))} lost what {name} published:"
        f" {found.message}",
        code="P808",
        hint="to go on behind what is lost:  penstock publish --accept target",
    )


def stopped(publication: Publication, found: Stopped) -> PenstockError:
    """Return the error of a start that may not use its ledger, by what was found."""
    name, fact = publication.name, found.message
    match found.reason:
        case StopReason.OTHER_GROUP:
            return InvalidError(
                f"the offsets topic of {name} is another's: {fact}",
                code="P806",
                hint="give the publication another offsets topic, or its former group",
            )
        case StopReason.FENCED:
            return fenced(name, fact)
        case StopReason.LEDGER_DAMAGED:
            return DecisionNeededError(
                f"the offsets topic of {name} lost positions: {fact}",
                code="P807",
                hint=f"restore it from a copy, or name positions:  penstock seek {name}",
            )
        case StopReason.TARGET_LOST_RECORDS:
            return _lost(publication, found)
        case StopReason.TAIL_TOO_LONG:
            return DecisionNeededError(
                f"too much is behind the last receipt of {name} to be looked through: {fact}",
                code="P809",
                hint="to go on without having looked:  penstock publish --accept tail",
            )
        case StopReason.LEDGER_WENT_BACK:
            return DecisionNeededError(
                f"the offsets topic of {name} went back: {fact}",
                code="P810",
                hint="restore it, or publish them again:  penstock publish --accept ledger;  or"
                f" skip them:  penstock seek {name}",
            )
        case StopReason.LEDGER_GONE:
            return DecisionNeededError(
                f"the offsets topic of {name} has no ledger: {fact}",
                code="P811",
                hint=f"restore it; or name positions:  penstock seek {name};  or begin without it,"
                " which may publish again what is there:  penstock publish --accept ledger",
            )
        case StopReason.SOURCE:
            return DecisionNeededError(
                f"the source of {name} is not the one that was read: {fact}",
                code="P812",
                hint="to go on from what is there:  penstock publish --accept gap",
            )
