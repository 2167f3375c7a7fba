"""The page docs/reference/verification.md, from what models, histories, crashes and storms left."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.proof import (  # noqa: E402
    answers_models,
    delta_entries_models,
    exchange_models,
    keyed_models,
    load_models,
    maintain_models,
    models,
    prove,
    publish_models,
    row_ids_models,
    shards_models,
)

RESULTS = ROOT / "docs/design/spec/results"

STORM = (
    "From `make storm`: two pipelines without Spark, one on it, one of three shards that five equal",
    "processes land over PostgreSQL, so that two stand by at any time, and a mirror of their topic;",
    "into Iceberg behind a REST catalog and into Delta, while faults come from a seed every few",
    "seconds. A checker polls all the while, every record is compared with Kafka at the end, value by",
    "value, and Spark reads every table.",
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


MUTANTS = (
    "From `make mutants`, over core/ and commit/, as far as it has come. A survivor is listed here with "
    "its reason (tests/proof/survivors.txt); one that has neither test nor reason yet is left out, "
    "and tried again:"
)


def page(mark: str) -> str:
    """Return docs/reference/verification.md, from the kept results."""
    lines = [
        "# Verification",
        "",
        mark,
        "",
        "The figures of what checks Penstock beyond its tests, from the results that are kept in",
        "`docs/design/spec`. `Penstock.tla` specifies the commit protocol, `Keyed.tla` what keyed tables",
        "add to it (models `keyed…`), `Maintain.tla` what maintenance adds (models `maintain…`),",
        "`RowIds.tla` what row ids add to that (models `row-ids…`),",
        "`Load.tla` what loads that replace add (models `load…`),",
        "`Publish.tla` and `PublishTasks.tla` how Kafka is written, `Shards.tla` where shards begin",
        "(models `shards…`), `Answers.tla` what is kept of a catalog's answers (models `answers…`),",
        "`DeltaEntries.tla` ids of rows and times of versions in Delta (models `delta-entries…`),",
        "`Exchange.tla` rows that meet before they are written (models `exchange…`); TLC searches",
        "all states of a model, breadth first. Seconds are those",
        "of a busy machine with 2 cores, depth is the length of the longest history. `make prove` makes",
        "the figures again, and fails when one model or mutant is not as it should be. A model is small:",
        "this is evidence, and no proof.",
        "",
        "## Models that hold",
        "",
        f"Invariants: {_names(models.PENSTOCK)}; of keyed tables: {_names(keyed_models.KEYED)};",
        f"of maintenance: {_names(maintain_models.MAINTAIN)};",
        f"of row ids: {_names(row_ids_models.ROW_IDS)};",
        f"of loads: {_names(load_models.LOAD)};",
        f"of publishing: {_names(publish_models.PUBLISH)}; of shards: {_names(shards_models.SHARDS)};",
        f"of answers: {_names(answers_models.ANSWERS)};",
        f"of entries of Delta: {_names(delta_entries_models.DELTA_ENTRIES)};",
        f"of exchanges: {_names(exchange_models.EXCHANGE)}.",
        "",
        "| model | of | distinct states | depth | seconds |",
        "|---|---|---|---|---|",
        *_held(prove.SMALL),
        *_large(),
        "",
        "## Defences taken away",
        "",
        "Each alone, or with the other that would do in its place, and with only the faults that it takes:",
        "every one breaks an invariant.",
        "",
        "| without | that is | breaks | after distinct states |",
        "|---|---|---|---|",
    ]
    figures = prove.kept()
    for model in prove.MUTANTS:
        each = figures[model.name]
        lines.append(f"| {model.name} | {model.what} | `{each.verdict}` | {each.distinct:,} |")
    lines += [
        "",
        "Each counterexample of the commit protocol (`tests/proof/traces`) is played against the code by",
        "`tests/proof/test_counterexamples.py`: exact with the defence, wrong where a test can take the",
        "defence out of the code. What the model leaves out:",
        "[the specification](../design/spec/README.md#what-is-not-in-it).",
        "",
        "## Random histories",
        "",
        "From `make soak-sim`:",
        "",
        *_quoted("soak.txt.said"),
        "",
        "## Crash points",
        "",
        *_crashes((RESULTS / "crash.txt").read_text()),
        "",
        "## Fault storm",
        "",
        *STORM,
        "",
        *_quoted("storm.txt"),
        "",
        "## Mutants of the code",
        "",
        MUTANTS,
        "",
        "| file | killed | survived |",
        "|---|---|---|",
        *_mutants((RESULTS / "mutants.txt").read_text()),
        "",
        "## Fuzzing",
        "",
        "From `make fuzz`; features are what libFuzzer distinguished:",
        "",
        *_quoted("fuzz.txt"),
    ]
    return "\n".join([*lines, ""])


def _names(specification: models.Specification) -> str:
    return ", ".join(f"`{name}`" for name in specification.invariants)


def _held(chosen: Sequence[models.Model]) -> list[str]:
    figures = prove.kept()
    return [
        f"| `{each.name}` | {each.what} | {found.distinct:,} | {found.depth} "
        f"| {found.seconds:.0f} |"
        for each in chosen
        if (found := figures[each.name]).verdict == "holds"
    ]


def _large() -> list[str]:
    """Return the large models: those searched whole, then how far the others were searched."""
    figures = prove.kept()
    lines, former = _held(prove.LARGE), []
    for each in prove.LARGE:
        found = figures[each.name]
        if found.verdict != "holds":
            far = f"`{each.name}` ({each.what}) was searched as far as {found.distinct:,} states"
            ended = found.verdict == "did not end"
            broken = "nothing was broken by then" if ended else f"it breaks `{found.verdict}`"
            lines += ["", f"{far}: {broken}."]
        if found.of != models.mark(each):
            former.append(f"`{each.name}` ({found.commit})")
    if former:
        lines += ["", f"Searched before the specification changed: {', '.join(former)}."]
    return lines


def _quoted(name: str) -> list[str]:
    return ["```text", *(RESULTS / name).read_text().splitlines(), "```"]


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


def _mutants(text: str) -> list[str]:
    """Count what was kept of mutants, file by file."""
    counts: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        verdict, _, path, *_ = line.split(" ")
        each = counts.setdefault(path, {"killed": 0, "survived": 0})
        each[verdict] += 1
    counts["all"] = {name: sum(n[name] for n in counts.values()) for name in ("killed", "survived")}
    return [f"| `{p}` | {n['killed']} | {n['survived']} |" for p, n in sorted(counts.items())]
