"""The exchange of an epoch: what its tasks read is dealt by partition, and written by other tasks.

Theory of operation (docs/design/0377): a task writes the rows of an exchanged table to one exchange
file; of the results that count, the blocks are dealt to as many tasks as the engine runs at once,
and their files are the table's. An epoch that one task reads needs no exchange.

Invariants:
- only blocks of accepted results are read, each by one task: one attempt of each slice counts;
- all shares of an epoch are whole, or none counts, and it is read again without an exchange;
- exchange files are deleted when they are read, or not needed; what stays is swept as any file
  that nothing names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.core.commits import DataFile
from penstock.core.errors import BugError, UnavailableError
from penstock.core.events import ExchangeGivenUp
from penstock.core.exchange import ExchangeFile, dealt
from penstock.core.planning import Epoch
from penstock.landing.settings import Environment
from penstock.landing.task.messages import TaskResult, WriteTarget
from penstock.landing.task.results import failures
from penstock.landing.task.share import ShareJob, ShareResult, exchange_of
from penstock.landing.task.share_json import share_job_to_json, share_result_from_json
from penstock.ports.exchange import Exchange
from penstock.ports.runtime import DIED

ExchangedTables = Mapping[str, tuple[WriteTarget, Exchange]]
"""By table where its rows are written, and its exchange."""


@dataclass(frozen=True, slots=True)
class EpochExchange:
    """Exchanges the rows of one epoch's results."""

    environment: Environment
    epoch: Epoch
    pipeline: str
    crash_plan: str
    tables: ExchangedTables

    def written(self, results: Sequence[TaskResult]) -> list[TaskResult] | None:
        """Return results with the files of the tables whose rows are exchanged; None where a share
        was not written: then the epoch is to be read again without an exchange.

        Raises what the engine raises but for workers that die (P606), and BugError (P702) where it
        gave other results than asked for.
        """
        failed = failures(results)
        files: dict[str, list[ExchangeFile]] = defaultdict(list)
        for result in results:
            for name, written in result.exchanged.items():
                files[name] += written
        try:
            jobs = self._jobs({name: files[name] for name in files.keys() - failed.keys()})
            shares = self._run(jobs)
        except UnavailableError as error:
            if error.code != DIED:
                raise
            shares = [ShareResult(-1, error=error)]
        finally:
            for name, read in files.items():
                self.tables[name][1].discard(file.path for file in read)
        for share in shares:
            if share.error is not None:
                event = ExchangeGivenUp(self.epoch.number, share.error.message, share.error.code)
                self.environment.observer(event)
                return None
        return _joined(results, jobs, shares)

    def _jobs(self, files: Mapping[str, Sequence[ExchangeFile]]) -> list[ShareJob]:
        """Deal what is in exchange files to tasks, of each table to as many as run at once."""
        capacity = self.environment.engine.capacity()
        shares = [(name, each) for name in sorted(files) for each in dealt(files[name], capacity)]
        first = 1 + max(part.number for part in self.epoch.slices)
        label, token = f"{self.pipeline}-{self.epoch.number}", self.environment.token
        return [
            ShareJob(
                number=number,
                prefix=f"{label}-{number}-{token()}",
                table=name,
                write_target=self.tables[name][0],
                share=share,
                crash_plan=self.crash_plan,
            )
            for number, (name, share) in enumerate(shares, first)
        ]

    def _run(self, jobs: Sequence[ShareJob]) -> list[ShareResult]:
        """Run jobs; return a result for each, in order."""
        texts = self.environment.engine.run([*map(share_job_to_json, jobs)]) if jobs else []
        results = [*map(share_result_from_json, texts)]
        planned, got = [job.number for job in jobs], [each.number for each in results]
        if sorted(got) != planned:
            raise BugError(
                f"epoch {self.epoch.number}: shares {planned} were dealt, results came for {got}",
                code="P702",
                hint="nothing was committed for this epoch; please report this",
            )
        return sorted(results, key=lambda each: each.number)


def exchanges_of(
    environment: Environment, epoch: Epoch, targets: Mapping[str, WriteTarget]
) -> ExchangedTables:
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


def _joined(
    results: Sequence[TaskResult], jobs: Sequence[ShareJob], shares: Sequence[ShareResult]
) -> list[TaskResult]:
    """Return results as if the first had written all files: they are of no slice any more."""
    files: dict[str, tuple[DataFile, ...]] = defaultdict(tuple)
    for job, share in zip(jobs, shares, strict=True):
        files[job.table] += share.files
    first, *others = results
    return [replace(first, files={**first.files, **files}), *others]
