"""A model of a pipeline at sizes that no machine of ours has: laws, and the constants put in.

Theory of operation. An epoch is planned and its records are worked off by all cores: its *work*.
Its *commits* are made during the next epoch's work, tables in parallel in a few threads, of
which one at a time computes while the others wait for the object store. A pipeline keeps up when
work and commits each end within the time between epochs.

Invariants:
- the laws are pure and linear in what was measured; what was not measured is not in them: what a
  further task costs Spark's driver, the network of a host, a broker at its limit;
- prices are the caller's; all else comes from `constants`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.constants import Constants

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Load:
    """Records a second, bytes of one, partitions they come from, tables they go to."""

    rate: float = 5000.0
    record_bytes: float = 300.0
    partitions: int = 4
    tables: int = 1

    def of_records(self, times: int) -> Load:
        """Return so many times the records, from as many more partitions, into the same tables."""
        return replace(self, rate=self.rate * times, partitions=self.partitions * times)

    def of_tables(self, times: int) -> Load:
        """Return the same records, led to so many times the tables."""
        return replace(self, tables=self.tables * times)


@dataclass(frozen=True, slots=True)
class Site:
    """What works it off: cores of executors, time between epochs, how late the store answers."""

    cores: int = 2
    every_seconds: float = 1.0
    answer_seconds: float = 0.05
    commit_threads: int = 8


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars for a core's hour, a thousand PUTs or other requests, a gigabyte for a month."""

    core_hour: float = 0.04
    thousand_puts: float = 0.005
    thousand_gets: float = 0.0004
    gigabyte_month: float = 0.023


@dataclass(frozen=True, slots=True)
class Predicted:
    """How a load fares at a site. `parts` are seconds of one epoch, by what they go to."""

    load: Load
    site: Site
    parts: Mapping[str, float]
    work_seconds: float
    commits_seconds: float
    files_a_day: float
    metadata_bytes_a_day: float
    data_bytes_a_day: float
    dollars_a_day: float

    @property
    def keeps_up(self) -> bool:
        """Return whether each epoch is done when the next one is due."""
        return max(self.work_seconds, self.commits_seconds) <= self.site.every_seconds

    @property
    def bottleneck(self) -> str:
        """Name what takes longest, where most of the time goes: in the work or the commits."""
        if self.commits_seconds <= self.work_seconds:
            return max(WORK, key=lambda name: self.parts[name])
        computing = {name: self.parts[name] for name in COMPUTING}
        if self.commits_seconds > sum(computing.values()):  # most threads wait, most of the time
            rounds = _rounds(self.load, self.site) / self.load.tables
            computing = {name: rounds * seconds for name, seconds in computing.items()}
            computing["answers"] = self.parts["answers"]
        return max(computing, key=lambda name: computing[name])


WORK = ("planning", "records")
COMPUTING = ("commit", "tables", "ledger")


def record_seconds(measured: Constants, load: Load) -> float:
    """Return the CPU seconds of one record, in proportion to its bytes."""
    return measured.record_cpu_seconds * load.record_bytes / measured.record_bytes


def files(load: Load, site: Site) -> int:
    """Count the files of one epoch: one for each task and table, a task a core or partition."""
    return load.tables * min(site.cores, load.partitions)


def planning_seconds(measured: Constants, site: Site) -> float:
    """Return an epoch's own time: more on executors, which a machine's cores are not enough for."""
    local = site.cores <= measured.local_cores
    return measured.epoch_seconds if local else measured.cluster_epoch_seconds


def partitions_bytes(measured: Constants, load: Load) -> float:
    """Return what partitions add to a commit's metadata; too many ranges are left out."""
    listed = load.partitions <= measured.ranges_partitions
    each = measured.commit_partition_bytes if listed else measured.partition_beyond_bytes
    return load.partitions * each


def parts(measured: Constants, load: Load, site: Site) -> dict[str, float]:
    """Return the seconds of one epoch by what they go to: `WORK`, `COMPUTING`, and answers."""
    rows = load.rate * site.every_seconds
    return {
        "planning": planning_seconds(measured, site),
        "records": rows * record_seconds(measured, load) / site.cores,
        "commit": measured.commit_seconds + files(load, site) * measured.commit_file_seconds,
        "tables": (load.tables - 1) * measured.table_seconds,
        "ledger": load.tables * load.partitions * measured.commit_partition_seconds,
        "answers": _rounds(load, site) * measured.answers * site.answer_seconds,
    }


def predicted(
    measured: Constants, load: Load, site: Site, prices: Prices | None = None
) -> Predicted:
    """Return how a load fares at a site."""
    found = parts(measured, load, site)
    epochs = DAY_SECONDS / site.every_seconds
    commits = epochs * load.tables
    written = epochs * files(load, site)
    metadata = commits * (measured.commit_bytes + load.partitions * measured.commit_partition_bytes)
    metadata += written * measured.commit_file_bytes
    data = DAY_SECONDS * load.rate * measured.written_bytes * load.record_bytes
    data /= measured.record_bytes
    puts = commits * measured.puts + written
    gets = commits * (measured.requests - measured.puts)
    cost = prices or Prices()
    return Predicted(
        load,
        site,
        found,
        work_seconds=sum(found[name] for name in WORK),
        commits_seconds=_commits_seconds(found, load, site),
        files_a_day=written,
        metadata_bytes_a_day=metadata,
        data_bytes_a_day=data,
        dollars_a_day=site.cores * 24 * cost.core_hour
        + puts * cost.thousand_puts / 1000
        + gets * cost.thousand_gets / 1000
        + data / 1e9 * cost.gigabyte_month / 30,
    )


def _commits_seconds(found: Mapping[str, float], load: Load, site: Site) -> float:
    """Return the time of all commits: one computes at a time, as many as threads wait at once."""
    computing = sum(found[name] for name in COMPUTING)
    return max(computing, _rounds(load, site) * computing / load.tables + found["answers"])


def _rounds(load: Load, site: Site) -> int:
    return math.ceil(load.tables / site.commit_threads)


def cores_needed(measured: Constants, load: Load, site: Site) -> int | None:
    """Count the cores with which the work is done in time; None where no number is enough."""
    work = load.rate * site.every_seconds * record_seconds(measured, load)
    needed = _cores(work, site.every_seconds - measured.epoch_seconds)
    if needed is not None and needed <= measured.local_cores:
        return needed
    needed = _cores(work, site.every_seconds - measured.cluster_epoch_seconds)
    return None if needed is None else max(needed, measured.local_cores + 1)


def _cores(work: float, left: float) -> int | None:
    return None if left <= 0 else max(1, math.ceil(work / left - 1e-9))


def every_needed(measured: Constants, load: Load, site: Site) -> float | None:
    """Return the shortest time between epochs in which all is done; None where none is enough."""
    busy = load.rate * record_seconds(measured, load) / site.cores
    if busy >= 1:
        return None
    found = predicted(measured, load, site)
    return max(found.parts["planning"] / (1 - busy), found.commits_seconds)


def drained(measured: Constants, epoch_records: int, site: Site, *, executors: int = 0) -> float:
    """Return the records a second of a backlog on one machine that the broker shares.

    In epochs of a size, on all of its cores, or by so many executors of a core each.
    """
    planning = measured.cluster_epoch_seconds if executors else measured.epoch_seconds
    own = measured.record_cpu_seconds / (executors or site.cores)
    shared = (measured.record_cpu_seconds + measured.broker_cpu_seconds) / site.cores
    return epoch_records / (planning + epoch_records * max(own, shared))
