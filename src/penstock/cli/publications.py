"""What `plan`, `status`, `audit` and `validate` say of the publications of a spec.

A spec may land, publish, or both: of both, the commands say first what they say of tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.cli.output import fields_of, pasteable, print_json, print_line, show_error
from penstock.cli.specs import load_publications
from penstock.core.errors import InvalidError, PenstockError, gravest
from penstock.observe.formatting import number_of, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.app.inspect.publication_audit import PublicationAudit
    from penstock.app.inspect.publication_sample import PublicationSample
    from penstock.app.inspect.publications import PublicationView
    from penstock.rows.convert.absent_fields import AbsentFields
    from penstock.rows.encode.rules import MessageRules

CHANGES = 10
"""What `plan --exit-code` ends with where a run would do something."""


@dataclass(frozen=True, slots=True)
class Report:
    """What is said of publications: as data, as lines and errors, and as an exit code.

    `alone_exit_code` is what it ends with where nothing else is said, and nothing is wrong.
    """

    data: dict[str, Any] = field(default_factory=dict)
    lines: Sequence[str | PenstockError] = ()
    exit_code: int = 0
    alone_exit_code: int = 0

    def show(self, *, json: bool) -> int:
        """Print it alone; return its exit code."""
        code = self.exit_code or self.alone_exit_code
        if json:
            print_json({"exit_code": code, **self.data})
        else:
            self.show_lines()
        return code

    def show_lines(self) -> None:
        """Print it for people."""
        for line in self.lines:
            if isinstance(line, PenstockError):
                show_error(line, as_json=False)
            else:
                print_line(line)


NOTHING = Report()
"""What is said of a spec without publications."""


def planned(spec: Path, *, accept: Sequence[str] = (), exit_code: bool = False) -> Report:
    """Say what `penstock publish` would do."""
    from penstock.publishing.settings import FRAMES

    views = _views(spec, accept, samples=True)
    lines = [line for each in views for line in plan_lines(each)]
    own = [each for each in views if each.source != FRAMES]  # a program publishes the others
    works = [each for each in own if each.problem is None and (each.backlog or each.begins)]
    if works:
        lines.append(pasteable("a run would do this:  penstock publish"))
    code = _code_of(views) or (CHANGES if exit_code and works else 0)
    return Report(_data(views), lines, code)


def standing(spec: Path) -> Report:
    """Say where publications stand."""
    views = _views(spec)
    lines = [line for each in views for line in _status_lines(each)]
    return Report(_data(views), lines, _code_of(views))


def checked(spec: Path, *, offline: bool) -> Report:
    """Check publications, and the topics that they name unless `offline`."""
    if offline:
        return Report(lines=_valid(len(load_publications(spec).publish)))
    views = _views(spec)
    problems = [each.problem for each in views if each.problem is not None]
    lines = problems or _valid(len(views))
    return Report({"publications": problems}, lines, _code_of(views))


def audited(spec: Path, names: Sequence[str], *, rows: bool) -> Report:
    """Prove what publications published."""
    from penstock.app.inspect.publication_audit import audit_publications, is_nothing_compared
    from penstock.app.inspect.publication_audit import exit_code as code_of

    found = audit_publications(load_publications(spec), names, rows=rows)
    lines = [line for each in found for line in audit_lines(each)]
    data = [{**fields_of(each), "exit_code": each.exit_code} for each in found]
    alone = InvalidError.exit_code if is_nothing_compared(found) else 0
    return Report({"publications": data}, lines, code_of(found), alone)


def _views(
    spec: Path, accept: Sequence[str] = (), *, samples: bool = False
) -> list[PublicationView]:
    from penstock.app.inspect.publications import view_publications

    return view_publications(load_publications(spec), accept=accept, samples=samples)


def _data(views: Sequence[PublicationView]) -> dict[str, Any]:
    return {"publications": [fields_of(each) for each in views]}


def _code_of(views: Sequence[PublicationView]) -> int:
    return gravest(each.problem.exit_code for each in views if each.problem is not None)


def _valid(count: int) -> list[str | PenstockError]:
    return [f"{number_of(count, 'publication')}: valid"]


def _title(each: PublicationView) -> str:
    return f"publication {each.publication}  {each.source} → {each.into}"


def plan_lines(each: PublicationView) -> Iterator[str | PenstockError]:
    """Yield what a run would do for a publication, as lines for people."""
    yield _title(each)
    if each.problem is not None:
        yield each.problem
        yield from _sample_lines(each.sample)
        return
    begins = "begins" if each.begins else f"goes on after transaction {each.epoch}"
    yield f"  {begins}, as {each.transactional_id}; positions in {each.offsets_topic}"
    for name in each.forerunners:
        before = f"publication {name} has published into {each.into}"
        yield f"  {one_line(before)}; this one begins anew"
    yield f"  {each.client}"
    yield from (f"  accepted: {fact}" for fact in each.accepts)
    for topic, new in each.creates.items():
        count = new.partitions
        partitions = number_of(count, "partition") if count else "the brokers' number of partitions"
        yield f"  creates the topic {topic}, with {partitions}"
    if each.messages is not None:
        rejects = f"; what is none goes to {each.rejects}" if each.rejects else ""
        yield f"  messages: {one_line(_messages(each.messages))}{rejects}"
    if each.has_other_rules:
        yield (
            "  its rules are others than those of the last run: they hold for what follows, and"
            " what is published already stays"
        )
    yield from _sample_lines(each.sample)
    if each.absent.fields:
        yield f"  {absent_words(each.absent)}"
    if each.rate:
        yield f"  at most {each.rate}"
    for schema in each.schemas:
        state = "will be registered" if schema.id is None else f"registered as {schema.id}"
        yield f"  schema of the {schema.part}: subject {one_line(schema.subject)}, {state}"
    yield from (f"  {move.words}" for move in each.moves)
    if each.backlog:
        transactions = number_of(each.transactions, "transaction")
        backlog = number_of(each.backlog, "record")
        if each.is_least:
            yield f"  backlog: {backlog} in the next batch; what is behind it is not counted"
        else:
            yield f"  backlog: {backlog}, in {transactions}"
    else:
        why = ": its source has no part now, as where no file matches" if each.is_empty else ""
        yield f"  nothing to publish{why}"


def _sample_lines(sample: PublicationSample) -> Iterator[str]:
    """Yield what becomes of a sample of the records that wait."""
    if not sample.records:
        return
    rejected = sum(each.count for each in sample.rejected)
    yield (
        f"  a sample, the next {number_of(sample.records, 'record')}: {sample.published:,}"
        f" published, {sample.filtered:,} filtered, {rejected:,} rejected"
    )
    for each in sample.rejected:
        yield f"    rejected by {each.code}: {each.count:,}, first {one_line(each.first)}"


def absent_words(absent: AbsentFields) -> str:
    """Say which fields no record has."""
    return f"of {number_of(absent.records, 'record')} looked at none has the field {absent.words()}"


def _messages(rules: MessageRules) -> str:
    """Say how rows become messages."""
    keys = f"[{', '.join(rules.key)}]" if rules.key_is_object else ", ".join(rules.key)
    keys += f" as {rules.key_schema.format}" if rules.key_schema else ""
    value = rules.value_schema.format if rules.value_schema else rules.bytes_of or "json"
    said = [f"key {keys}" if rules.key else "no key", f"value {value}"]
    conditions = {"where": rules.where, "deletes when": rules.delete_when}
    said += [f"{word} {sql}" for word, sql in conditions.items() if sql]
    said += [f"time {rules.timestamp}"] if rules.timestamp else []
    said += [f"computes {', '.join(rules.computed)}"] if rules.computed else []
    headers = "as they are" if rules.headers_of else ", ".join(rules.headers)
    said += [f"headers {headers}"] if headers else []
    return "; ".join([*said, "in their partitions"] if rules.keeps_partition else said)


def _status_lines(each: PublicationView) -> Iterator[str | PenstockError]:
    yield _title(each)
    if each.problem is not None:
        yield each.problem
    if each.published is not None:
        least = "at least " if each.counts_are_least else ""
        filtered = f", {each.filtered:,} filtered" if each.filtered else ""
        rejected = f", {each.rejected:,} rejected" if each.rejected else ""
        published = f"{least}{number_of(each.published, 'record')}{filtered}{rejected}"
        yield f"  published: {published}, after {number_of(each.epoch or 0, 'transaction')}"
    if each.stands:
        yield f"  stands {each.stands}"
    if each.backlog is not None:
        least = "at least " if each.is_least and each.backlog else ""
        yield f"  lag: {least}{number_of(each.backlog, 'record')}"
    if each.owner:
        yield f"  last run: {each.owner}"
    stop = each.stopped
    if stop is not None and (each.problem is None or each.problem.code != stop.code):
        at = datetime.fromtimestamp(stop.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        word = "waits since" if stop.waits else "stopped"
        yield f"  {word} {at}: {stop.code}  {one_line(stop.reason)}"


def audit_lines(each: PublicationAudit) -> Iterator[str | PenstockError]:
    """Yield what an audit of a publication found, as lines for people."""
    yield f"publication {each.publication}"
    if each.problem is not None and not each.transactions:
        yield each.problem
        return
    receipts = number_of(each.transactions, "transaction")
    kept = "" if each.transactions == each.epoch else f", the newest of {each.epoch:,}"
    rejected = f", {number_of(each.rejected, 'reject')}" if each.rejected else ""
    yield f"  receipts of {receipts}{kept}: {number_of(each.records, 'record')}{rejected}"
    batches = "1 batch" if each.batches == 1 else f"{each.batches:,} batches"
    yield f"  in the target: {batches}"
    if each.stands:
        yield f"  stands {each.stands}"
    if each.rows is not None:
        yield f"  compared with the source: {number_of(each.rows, 'record')}"
    yield from (f"  sought {text}" for text in each.sought)
    yield from (f"  not compared: {reason}" for reason in each.not_compared)
    yield from (f"  BROKEN {one.kind}: {one.where}: {one.message}" for one in each.breaks)
    if each.problem is not None:
        yield each.problem
    elif not each.breaks:
        batches = ", every batch in one receipt" if each.batches else ""
        rows = ", each record as in the source" if each.rows else ""
        word = "nothing to compare with the source" if each.rows == 0 else "ok"
        yield f"  {word}: chain gapless{batches}{rows}"
