"""The models of the commit protocol's specification, and its mutants: the constants of each.

A model must hold; a mutant has one defence `Off` and just the faults it takes, and must break one of
the invariants named. TLC reads the constants from `configuration`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs/design/spec"
COMMENT = re.compile(r"\\\*[^\n]*|\(\*.*?\*\)", re.DOTALL)


@dataclass(frozen=True)
class Specification:
    """A file of TLA+, what it must not break, and the constants of its models unless they say so."""

    name: str
    invariants: tuple[str, ...]
    constants: dict[str, object]

    @property
    def path(self) -> Path:
        """Return where the file is."""
        return FOLDER / f"{self.name}.tla"


PENSTOCK = Specification(
    "Penstock",
    (
        "I1_NoDup",
        "I2_NoLoss",
        "I3_Monotone",
        "I4_Fenced",
        "I5_OneIdentity",
        "I6_FilesLive",
        "I9_FanOut",
        "I10_TwoPhases",
        "I11_Quarantine",
    ),
    {
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
    },
)
STRANGERS = {"foreign", "expire", "rollback", "recreate", "alter"}
ALL = {*STRANGERS, "away", "lose", "orphans", "retention"}


@dataclass(frozen=True)
class Model:
    """One run of TLC: constants that differ from the specification's, and what it must find."""

    name: str
    what: str
    breaks: str = ""
    changes: dict[str, object] = field(default_factory=dict)
    specification: Specification = PENSTOCK

    @property
    def constants(self) -> dict[str, object]:
        """Return all constants; a mutant has the defence of its name off."""
        off = {"Off": {self.name}} if self.breaks else {}
        return {**self.specification.constants, **off, **self.changes}


def faults(*names: str, times: int = 0, **changes: object) -> dict[str, object]:
    """Return which faults may strike, each once at most when no number is given."""
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
    _mutant(
        "offsets",
        "I1 I2 I3",
        "a commit lands at whatever position its table has",
        **faults("orphans"),
    ),
    _mutant(
        "own refusal",
        "I2",
        "a table passes by what its route is too slow for",
        **faults("park", Many=2, Shape="slow"),
    ),
    _mutant("order of rules", "I4", "a commit that fits is landed before its rank is looked at"),
    _mutant(
        "look after the claim",
        "I2 I11",
        "a stand-by keeps what it saw before its claim",
        **faults("alter", Shape="widen", Early=1),
    ),
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
        "a rollback is reported, not fenced, in a catalog that compares the head alone",
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
        "a claim lands what it finds pending, whatever read it meanwhile",
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
        "a seek goes back to the beginning, after rows or before them",
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


def configuration(model: Model) -> str:
    """Write the constants as TLC reads them."""
    lines = [f"  {name} = {_literal(value)}" for name, value in model.constants.items()]
    checked = [f"  {name}" for name in model.specification.invariants]
    return "\n".join(["SPECIFICATION Spec", "CONSTANTS", *lines, "INVARIANTS", *checked, ""])


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, set):
        return "{" + ", ".join(sorted(map(_literal, value))) + "}"
    return f'"{value}"' if isinstance(value, str) else str(value)


def mark(model: Model) -> str:
    """Return a mark that changes with the constants of a model and with what is specified."""
    lines = map(str.rstrip, COMMENT.sub("", model.specification.path.read_text()).splitlines())
    stated = "\n".join([configuration(model), *filter(None, lines)])
    return hashlib.sha256(stated.encode()).hexdigest()[:12]
