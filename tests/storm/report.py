"""The report of a storm: what was thrown at the pipelines, and what came of it; as JSON and text."""

from __future__ import annotations

import math
import os
import platform
import signal
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.storm.judgement import LOST, NOT_LANDED, Judgement
from tests.storm.lives import Log
from tests.storm.watch import Sight

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Report:
    """All that a storm came to; it is green when nothing is in `wrong`."""

    seed: int
    seconds: float
    plan: str
    gusts: int
    logs: Mapping[str, Log]
    world: Mapping[str, int]
    others: Mapping[str, int]
    ways: Mapping[str, int]
    checks: int
    sights: Sequence[Sight]
    blind: Sequence[str]
    too_late: int
    judgement: Judgement
    phases: Mapping[str, float]
    deleted: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    """Rows of tables with keys that other writers deleted: partition and offset."""

    @property
    def wrong(self) -> list[str]:
        """List what must not be."""
        found = [str(each) for each in self.judgement.findings]
        found += [f"seen meanwhile: {each}" for each in self.sights]
        found += [f"a check failed: {each}" for each in self.blind]
        found += [*self.judgement.others_wrong, *self.judgement.spark_differs]
        found += self.judgement.audits
        found += self.judgement.values.wrong
        found += [f"nobody knows the origin of {each}" for each in self.judgement.leftovers.unknown]
        for log in self.logs.values():
            found += log.unexpected
        return found

    @property
    def counted(self) -> dict[str, int]:
        """Count coordinates that went wrong, by kind: at the end, or seen meanwhile."""
        ended = {(each.kind, each.table, each.at.partition, each.at.offset) for each in self._found}
        seen = {(each.kind, each.table, each.partition, each.offset) for each in self.sights}
        kinds = Counter(kind for kind, *_ in ended | seen)
        names = (LOST, NOT_LANDED, "doubled", "out of order")
        named = {name: kinds.pop(name, 0) for name in names}
        return {**named, "otherwise wrong": sum(kinds.values())}

    @property
    def _found(self) -> Sequence[Any]:
        return self.judgement.findings

    def data(self) -> dict[str, Any]:
        """Return everything as JSON takes it."""
        judgement, left = self.judgement, self.judgement.leftovers
        recoveries = _merged(log.recoveries for log in self.logs.values())
        commits = _merged(log.commits for log in self.logs.values())
        every = [each for those in recoveries.values() for each in those]
        return {
            "seed": self.seed,
            "plan": {
                "gusts": self.gusts,
                "sha256": self.plan,
                "too_late": self.too_late,
            },
            "seconds": round(self.seconds),
            "phases": dict(self.phases),
            "machine": _machine(),
            "commit": _commit(),
            "records": judgement.records,
            "records_without_value": judgement.without_value,
            "batches": dict(self.ways),
            "rows": dict(judgement.rows),
            "refused": judgement.refused,
            "published": dict(judgement.published),
            **{name.replace(" ", "_"): count for name, count in self.counted.items()},
            "looks": self.checks,
            "events": dict(sum((log.events for log in self.logs.values()), Counter())),
            "commits": {table: len(times) for table, times in commits.items()},
            "longest_stall_seconds": {table: _longest(times) for table, times in commits.items()},
            "recovery_seconds": {
                "all": _spread(every),
                **{name: _spread(those) for name, those in sorted(recoveries.items())},
            },
            "faults": dict(sorted(self.faults.items())),
            "lives": _lives(self.logs),
            "strangers": dict(sorted(self.others.items())),
            "leftovers": {
                "files": sum(left.by.values()) + len(left.unknown),
                "by": dict(sorted(left.by.items())),
                "attempts": left.attempts,
                "not_attributable": len(left.unknown),
            },
            "read_by_spark": judgement.read_by_spark,
            "spark_differs": len(judgement.spark_differs),
            "files_compared": judgement.values.files,
            "values_wrong": len(judgement.values.wrong),
            "wrong": self.wrong[:SHOWN_MAX],
        }

    @property
    def faults(self) -> Counter[str]:
        """Count the faults that struck, by kind."""
        return sum((log.faults for log in self.logs.values()), Counter(self.world))


def lines(data: Mapping[str, Any]) -> list[str]:
    """Return the report of a storm, from its JSON, in lines for people."""
    recovery, left = data["recovery_seconds"], data["leftovers"]
    stalls = data["longest_stall_seconds"]
    slowest = max(stalls, key=stalls.__getitem__, default="")
    shown = [
        (
            f"{'green' if not data['wrong'] else 'RED'}: seed {data['seed']}, {data['seconds']:,} s, "
            f"plan {data['plan']['sha256']} of {data['plan']['gusts']} gusts, {data['plan']['too_late']} too late"
        ),
        f"commit {data['commit']}; {data['machine']}",
        (
            f"records {data['records']:,}, {data['records_without_value']:,} of them without value; "
            f"rows {sum(data['rows'].values()):,} in {len(data['rows'])} tables; "
            f"refused {data['refused']:,}; published {sum(data['published'].values()):,}"
        ),
        (
            f"lost {data['lost']}, not landed {data['not_landed']}, doubled {data['doubled']}, out of order {data['out_of_order']}, "
            f"otherwise wrong {data['otherwise_wrong']}; looks meanwhile {data['looks']}"
        ),
        f"rows read by Spark {data['read_by_spark']:,}, tables that differ {data['spark_differs']}",
        f"files compared with metadata {data['files_compared']:,}, differences {data['values_wrong']}",
        (
            f"commits {sum(data['commits'].values()):,}; "
            f"tables maintained {data['events'].get('TableMaintained', 0):,} times; "
            f"longest without one {stalls.get(slowest, 0.0):.1f} s, {slowest}"
        ),
        (
            f"recovery p50 {recovery['all']['p50']:.1f} s, p99 {recovery['all']['p99']:.1f} s, "
            f"max {recovery['all']['max']:.1f} s, of {recovery['all']['count']}"
        ),
        (
            f"leftover files {left['files']}, of {left['attempts']} named attempts; "
            f"not attributable {left['not_attributable']}"
        ),
        f"faults {sum(data['faults'].values()):,}:",
    ]
    shown += [f"  {count:>6}  {name}" for name, count in data["faults"].items()]
    shown += ["lives by their end and exit code:"]
    shown += [f"  {count:>6}  {name}" for name, count in data["lives"].items()]
    shown += ["by strangers:"]
    shown += [f"  {count:>6}  {name}" for name, count in data["strangers"].items()]
    shown += ["leftover files by:"]
    shown += [f"  {count:>6}  {name}" for name, count in left["by"].items()]
    shown += ["longest without a commit:"]
    shown += [f"  {seconds:>6.1f} s  {name}" for name, seconds in sorted(stalls.items())]
    shown += ["recovery by what struck, p50 and max:"]
    shown += [
        f"  {each['p50']:>6.1f}  {each['max']:>6.1f} s  {name}"
        for name, each in recovery.items()
        if name != "all"
    ]
    return shown + [f"WRONG {each}" for each in data["wrong"]]


def _merged(those: Any) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for each in those:
        for name, seconds in each.items():
            found.setdefault(name, []).extend(seconds)
    return found


def _lives(logs: Mapping[str, Log]) -> dict[str, int]:
    ends = Counter(
        f"{signal.Signals(-each.code).name if each.code < 0 else each.code} after {each.blow}"
        for log in logs.values()
        for each in log.lives
    )
    return dict(sorted(ends.items()))


def _longest(times: Sequence[float]) -> float:
    return round(max((b - a for a, b in pairwise(sorted(times))), default=0.0), 1)


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return count, median, 99th percentile by rank, and maximum."""
    if not seconds:
        return {"count": 0, "p50": 0.0, "p99": 0.0, "max": 0.0}
    ranked = sorted(seconds)

    def rank(share: float) -> float:
        return round(ranked[math.ceil(share * len(ranked)) - 1], 2)

    return {"count": len(ranked), "p50": rank(0.5), "p99": rank(0.99), "max": rank(1.0)}


def _machine() -> str:
    """Return the machine, and how many processes wanted its cores in the last 15 minutes."""
    cores, load = os.cpu_count(), os.getloadavg()[2]
    return (
        f"{cores} cores, load {load:.1f}, Python {platform.python_version()}, {platform.machine()}"
    )


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
