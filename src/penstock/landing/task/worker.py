"""The worker's body: read lanes, turn bytes into rows, write files, keep the books.

Invariants:
- every record examined is landed, filtered with a reason or quarantined with a code, per table;
- a lane that stops early is reported with the position it reached; nothing behind it is written;
- nothing is deleted, and no table is opened or committed here.
"""

from __future__ import annotations

from penstock.core.errors import BugError, PenstockError
from penstock.core.offsets import Offset
from penstock.core.planning import Lane
from penstock.landing.task.batches import later, newest_ms
from penstock.landing.task.messages import Job, LaneResult, TaskResult
from penstock.landing.task.sink import TaskContext, TaskSink

__all__ = ["TaskContext", "work"]

UNRESPONSIVE_SECONDS = 10.0
"""Who gives nothing for so long, for half of a task's time, or no longer wants to be waited for,
gives nothing at all."""


def work(job: Job, tools: TaskContext) -> TaskResult:
    """Do one job. Raises what readers and writers raise; then files may be left over."""
    began = tools.clock.monotonic()
    deadline = began + job.timeout_seconds
    bench = TaskSink(job, tools)
    lanes = [_read(lane, bench, deadline) for lane in job.lanes]
    files, rejects = bench.finish(lanes)
    return TaskResult(
        number=job.number,
        lanes=tuple(lanes),
        files=files,
        rejects=rejects,
        tallies=bench.tallies,
        schemas=bench.schemas,
        requested=bench.requested,
        failed=bench.failed,
        reasons=bench.reasons,
        seconds=tools.clock.monotonic() - began,
    )


def _read(lane: Lane, bench: TaskSink, deadline: float) -> LaneResult:
    reached, records, size_bytes, newest = lane.covered.start, 0, 0, None
    asked = bench.context.clock.monotonic()
    leader_epoch = bench.job.leader_epochs.get(lane)
    try:
        for fetched in bench.context.reader.read(
            lane.at,
            lane.covered,
            deadline=deadline,
            headers=bench.wants_headers(lane),
            leader_epoch=leader_epoch,
        ):
            bench.write(lane, fetched.batch)
            reached = fetched.reached
            records += fetched.batch.num_rows
            size_bytes += fetched.batch.nbytes
            newest = later(newest, newest_ms(fetched.batch))
            leader_epoch = fetched.leader_epoch
    except BugError:
        raise
    except PenstockError as error:  # the log refused this lane: its tables go without it
        for name in lane.tables:
            bench.fail(name, error)
    ended = bench.context.clock.monotonic()
    patience = min(UNRESPONSIVE_SECONDS, bench.job.timeout_seconds / 2)
    waited = ended < deadline or ended - asked >= patience
    silent = reached == lane.covered.start and waited
    return LaneResult(lane, Offset(reached), records, size_bytes, newest, leader_epoch, silent)
