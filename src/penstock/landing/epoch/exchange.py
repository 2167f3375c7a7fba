"""The exchange of an epoch: what its tasks read is dealt by partition, and written by other tasks.

Theory of operation (docs/design/0377): a task writes the rows of an exchanged table to one exchange
file; of the results that count, the blocks are dealt to as many tasks as the engine runs at once,
and their files are the table's. An epoch that one task reads needs no exchange.

Invariants:
- only blocks of accepted results are read, each by one task: one attempt of each slice counts;
- a share is whole or its table gets nothing of the epoch;
- exchange files are deleted when they are read, or not needed; what stays is swept as any file
  that nothing names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.core.commits import DataFile
from penstock.core.errors import BugError, PenstockError
from penstock.core.events import RowsExchanged
from penstock.core.exchange import ExchangeFile, dealt, rows_of
from penstock.core.planning import Epoch
from penstock.landing.settings import Environment
from penstock.landing.task.messages import TaskResult, WriteTarget
from penstock.landing.task.results import failures
from penstock.landing.task.share import ShareJob, ShareResult, exchange_of
from penstock.landing.task.share_json import share_job_to_json, share_result_from_json
from penstock.ports.exchange import Exchange

Exchanges = Mapping[str, tuple[WriteTarget, Exchange]]
"""By table where its rows are written, and its exchange."""


@dataclass(frozen=True, slots=True)
class EpochExchange:
    """Exchanges the rows of one epoch's results; `prefix` begins the names of files."""

    environment: Environment
    epoch: Epoch
    pipeline: str
    crash_plan: str
    tables: Exchanges

    def written(self, results: Sequence[TaskResult]) -> list[TaskResult]:
        """Return results with the files of the tables whose rows are exchanged.

        Raises what the engine raises, BugError (P702) where it gave other results than asked for.
        """
        failed = failures(results)
        files: dict[str, list[ExchangeFile]] = defaultdict(list)
        for result in results:
            for name, written in result.exchanged.items():
                files[name] += written
        try:
            found = self._shared({name: files[name] for name in files.keys() - failed.keys()})
        finally:
            for name, read in files.items():
                self.tables[name][1].discard(file.path for file in read)
        return _joined(results, found)

    def _shared(
        self, files: Mapping[str, Sequence[ExchangeFile]]
    ) -> dict[str, tuple[DataFile, ...] | PenstockError]:
        """Let tasks write what is in exchange files; return their files by table, or an error."""
        capacity = self.environment.engine.capacity()
        jobs: list[ShareJob] = []
        first = 1 + max(part.number for part in self.epoch.slices)
        for name, each in sorted(files.items()):
            for share in dealt(each, capacity):
                number = first + len(jobs)
                label = f"{self.pipeline}-{self.epoch.number}-{number}"
                prefix = f"{label}-{self.environment.token()}"
                target = self.tables[name][0]
                jobs.append(ShareJob(number, prefix, name, target, share, self.crash_plan))
        if not jobs:
            return {}
        texts = self.environment.engine.run([*map(share_job_to_json, jobs)])
        results = {each.number: each for each in map(share_result_from_json, texts)}
        _require_all(self.epoch, jobs, results, len(texts))
        self._report(jobs)
        return _by_table(jobs, results)

    def _report(self, jobs: Sequence[ShareJob]) -> None:
        tasks = Counter(job.table for job in jobs)
        for name, count in tasks.items():
            shares = [job.share for job in jobs if job.table == name]
            size_bytes = sum(file.size_bytes for share in shares for file in share)
            rows = sum(map(rows_of, shares))
            event = RowsExchanged(self.epoch.number, name, count, rows, size_bytes)
            self.environment.observer(event)


def exchanges_of(
    environment: Environment, epoch: Epoch, targets: Mapping[str, WriteTarget]
) -> Exchanges:
    """Return the exchanges of the tables that several slices of an epoch are read for, and whose
    rows are to be exchanged.
    """
    slices = Counter(
        name
        for part in epoch.slices
        for name in {name for lane in part.lanes for name in lane.tables}
    )
    several = {name: targets[name] for name in targets if slices[name] > 1}
    found = {
        name: (target, exchange_of(target, environment.exchanges, environment.observer))
        for name, target in several.items()
    }
    return {name: (target, each) for name, (target, each) in found.items() if each is not None}


def _require_all(
    epoch: Epoch,
    jobs: Collection[ShareJob],
    results: Mapping[int, ShareResult],
    count: int,
) -> None:
    planned = {job.number for job in jobs}
    if results.keys() != planned or count != len(planned):
        raise BugError(
            f"epoch {epoch.number}: shares {sorted(planned)} were dealt, {count} results came for "
            f"{sorted(results)}",
            code="P702",
            hint="nothing was committed for this epoch; please report this",
        )


def _by_table(
    jobs: Sequence[ShareJob], results: Mapping[int, ShareResult]
) -> dict[str, tuple[DataFile, ...] | PenstockError]:
    found: dict[str, tuple[DataFile, ...] | PenstockError] = {}
    for job in jobs:
        result, known = results[job.number], found.get(job.table, ())
        if isinstance(known, PenstockError):
            continue
        found[job.table] = result.error or (*known, *result.files)
    return found


def _joined(
    results: Sequence[TaskResult], found: Mapping[str, tuple[DataFile, ...] | PenstockError]
) -> list[TaskResult]:
    """Return results as if the first had written all files: they are of no slice any more."""
    if not found:
        return [*results]
    errors = {name: each for name, each in found.items() if isinstance(each, PenstockError)}
    files = {name: each for name, each in found.items() if not isinstance(each, PenstockError)}
    first = replace(
        results[0],
        files={**results[0].files, **files},
        failed={**results[0].failed, **errors},
    )
    return [first, *results[1:]]
