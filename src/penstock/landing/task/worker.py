"""The worker's body: read lanes, turn bytes into rows, write files, keep the books.

Invariants:
- every record examined is landed, filtered with a reason or quarantined with a code, per table;
- a lane that stops early is reported with the position it reached; nothing after it is written;
- nothing is deleted, and no table is opened or committed here.
"""

from __future__ import annotations

import pyarrow.compute as pc

from penstock.core.errors import BugError, PenstockError
from penstock.core.offsets import Offset
from penstock.core.planning import Lane
from penstock.landing.task.context import TaskContext
from penstock.landing.task.messages import Job, LaneResult, TaskResult
from penstock.landing.task.sink import TaskSink

UNRESPONSIVE_SECONDS = 10.0
"""A partition that returns nothing for this long (or half the task timeout) counts as
unresponsive."""


def work(job: Job, tools: TaskContext) -> TaskResult:
    """Do one job. Raises what readers and writers raise; then files may be left over."""
    began = tools.clock.monotonic()
    deadline = began + job.timeout_seconds
    sink = TaskSink(job, tools)
    lanes = [_read(lane, sink, deadline) for lane in job.lanes]
    written = sink.output.finish(lanes)
    return TaskResult(
        number=job.number,
        lanes=tuple(lanes),
        files=written.files,
        rejects=written.rejects,
        exchanged=written.exchanged,
        touched=written.touched,
        tallies=sink.output.tallies,
        schemas=sink.schemas,
        requested=sink.requested,
        failed=sink.output.failed,
        reasons=sink.output.reasons,
        seconds=tools.clock.monotonic() - began,
    )


def _read(lane: Lane, sink: TaskSink, deadline: float) -> LaneResult:
    reached, records, size_bytes, newest = lane.covered.start, 0, 0, None
    asked = sink.context.clock.monotonic()
    leader_epoch = sink.job.leader_epochs.get(lane)
    try:
        for fetched in sink.context.reader.read(
            lane.at,
            lane.covered,
            deadline=deadline,
            headers=sink.wants_headers(lane),
            leader_epoch=leader_epoch,
        ):
            sink.write(lane, fetched.batch)
            reached = fetched.reached
            records += fetched.batch.num_rows
            size_bytes += fetched.batch.nbytes
            seen = pc.max(fetched.batch.column("timestamp")).value  # epoch milliseconds
            if seen is not None:
                newest = seen if newest is None else max(newest, seen)
            leader_epoch = fetched.leader_epoch
    except BugError:
        raise
    except PenstockError as error:  # the log refused this lane: its tables go without it
        for name in lane.tables:
            sink.output.fail(name, error)
    ended = sink.context.clock.monotonic()
    patience = min(UNRESPONSIVE_SECONDS, sink.job.timeout_seconds / 2)
    waited = ended < deadline or ended - asked >= patience
    silent = reached == lane.covered.start and waited
    return LaneResult(lane, Offset(reached), records, size_bytes, newest, leader_epoch, silent)
