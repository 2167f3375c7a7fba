"""An epoch of several transactions: each task begins and ends its own, on a worker.

Invariants:
- a task initialises a producer of its own, then reads whose the claim is: of a run that was
  replaced it sends nothing;
- a job that is done again finds what the first attempt did, and does nothing;
- what is in doubt is found by a start, which fences all tasks; those that ended have ended.

Source: KIP-618; docs/design/0297; PublishTasks.tla.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.core.errors import UnavailableError
from penstock.core.receipts import ledger_key
from penstock.ports.sources import Stretch
from penstock.publishing.epoch import InDoubt, Published, Share, publish_epoch
from penstock.publishing.own_stops import SOURCE_RAISED
from penstock.publishing.record import read_record, share_of, task_of
from penstock.publishing.share_messages import (
    ShareJob,
    ShareResult,
    share_result_from_json,
    share_to_json,
)
from penstock.publishing.start import PublicationState, Run


def publish_shares(
    run: Run, state: PublicationState, stretches: Sequence[Stretch]
) -> Published | InDoubt | None:
    """Have each task publish its stretches; None where nothing could be read in time.

    Raises what the engine raises.
    """
    publication, tasks = run.publication, run.publication.tasks
    of_tasks: dict[int, list[Stretch]] = {}
    for each in stretches:
        of_tasks.setdefault(task_of(each.of, tasks), []).append(each)
    jobs = [
        ShareJob(
            publication,
            task,
            state.claim,
            state.ledgers[task],
            share_of(state.stands, task, tasks),
            share_of(state.keys, task, tasks),
            state.topic_ids,
            tuple(own),
            state.batch_bytes_max,
        )
        for task, own in sorted(of_tasks.items())
    ]
    texts = run.environment.engine.run([share_to_json(each) for each in jobs])
    results = [share_result_from_json(text) for text in texts]
    return _added_up(state, {job.task: found for job, found in zip(jobs, results, strict=True)})


def _added_up(
    state: PublicationState, results: dict[int, ShareResult]
) -> Published | InDoubt | None:
    ledgers, stands, receipts = [*state.ledgers], dict(state.stands), []
    doubt: InDoubt | None = None
    for task, found in results.items():
        if found.doubt:
            doubt = InDoubt(found.doubt, batch_bytes_max=found.batch_bytes_max)
        if found.ledger is not None and found.receipt is not None:
            ledgers[task] = found.ledger
            stands |= found.moved
            receipts.append(found.receipt)
    if not receipts:
        return doubt
    after = replace(state, ledgers=tuple(ledgers), stands=stands)
    size = sum(each.sent_bytes for each in results.values())
    return Published(after, tuple(receipts), size, doubt)


def end_share(job: ShareJob, share: Share) -> ShareResult:
    """Take a task's id, look, and publish in a transaction of its own; on a worker.

    Raises what the engine raises, but for what may pass.
    """
    try:
        found = _ended(job, share)
    except UnavailableError as error:
        if error.code == SOURCE_RAISED:
            raise
        return ShareResult(doubt=error.message)
    if found is None:
        return ShareResult()
    if isinstance(found, InDoubt):
        return ShareResult(doubt=found.reason, batch_bytes_max=found.batch_bytes_max)
    (receipt,) = found.receipts
    moved = {at: move.stop for at, move in receipt.moves.items()}
    return ShareResult(found.state.ledger, receipt, moved, found.sent_bytes)


def _ended(job: ShareJob, share: Share) -> Published | InDoubt | None:
    name, producers = job.publication.name, share.producers
    term = producers.terms.take(share.transactional_id)
    look = producers.ledger.look()
    record = read_record(name, look)
    if record.claim != job.claim:
        return InDoubt("another run has begun with it")
    if ledger_key(name, job.task).raw in look.undecided:
        return InDoubt("a transaction of the task hangs")
    found = record.ledgers[job.task] if job.task < len(record.ledgers) else None
    stands = share_of(record.stands, job.task, job.publication.tasks)
    if found != job.ledger or stands != job.stands:
        return InDoubt("its ledger is not the one that it was planned from")
    state = PublicationState(
        term, (job.ledger,), job.stands, job.keys, job.topic_ids, job.claim, job.batch_bytes_max
    )
    return publish_epoch(share, state, job.stretches)
