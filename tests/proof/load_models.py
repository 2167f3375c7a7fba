"""The models of loads that replace, and their mutants.

The specification is docs/design/spec/Load.tla; models and mutants are as in models.py.
"""

from __future__ import annotations

from tests.proof.models import Model, Specification, faults

LOAD = Specification(
    "Load",
    ("L1_Rows", "L2_Present"),
    {
        "N": 4,
        "Landed0": 3,
        "Whole": False,
        "MaxLoads": 2,
        "Faults": set(),
        "MaxFaults": 0,
        "Off": set(),
    },
)
OTHERS = ("land", "late", "append", "delete", "compact", "retention")


def _model(name: str, what: str, **changes: object) -> Model:
    return Model(name, what, changes=changes, specification=LOAD)


def _mutant(name: str, breaks: str, what: str, **changes: object) -> Model:
    return Model(name, what, breaks, changes, LOAD)


SMALL = (
    _model(
        "load-partition",
        "a partition is loaded twice, beside all that others do; three faults",
        **faults(*OTHERS, times=3),
    ),
    _model(
        "load-whole",
        "a whole table is loaded twice, beside all that others do; three faults",
        **faults(*OTHERS, times=3, Whole=True),
    ),
)
MUTANTS = (
    _mutant(
        "records of rows",
        "L1",
        "a load brings the records that belong to the partition now, not those of the rows that go",
    ),
    _mutant(
        "each seen",
        "L1",
        "a load believes that Kafka has each record of the rows that go",
        **faults("retention"),
    ),
    _mutant(
        "own rows",
        "L1",
        "a load takes away rows that its pipeline has not landed",
        **faults("append"),
    ),
    _mutant(
        "none outside",
        "L2",
        "a partition is loaded while rows of it are in no file of it",
        **faults("late", Landed0=2),
    ),
    _mutant(
        "to its position",
        "L1",
        "a whole table is loaded to the end of the log, and a run lands the rest again",
        **faults("land", Whole=True),
    ),
    _mutant(
        "examined base",
        "L1",
        "a load lands on a table that moved since its rows were read",
        **faults("delete"),
    ),
    _mutant(
        "planned again",
        "L1",
        "after a lost answer the same rows are put in the place of what stands there then",
        **faults("land"),
    ),
    _mutant(
        "files live",
        "L1",
        "a load lands though the files that it replaces have gone, on whatever state",
        **faults("compact", Off={"files live", "examined base"}),
    ),
)
