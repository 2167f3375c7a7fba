"""The models of shards, and their mutants.

The specification is docs/design/spec/Shards.tla; models and mutants are as in models.py.
"""

from __future__ import annotations

from tests.proof.models import Model, Specification

SHARDS = Specification(
    "Shards",
    ("I1_NoDuplicate", "I2_NoLoss"),
    {
        "Lives": {1, 2, 3, 4},
        "Begins": {1, 2},
        "Parts": {1, 2, 3},
        "MaxRecords": 1,
        "MaxRequests": 2,
        "Missing": False,
        "Bad": set(),
        "Off": set(),
    },
)


def _model(name: str, what: str, **changes: object) -> Model:
    return Model(name, what, changes=changes, specification=SHARDS)


def _mutant(name: str, breaks: str, what: str, **changes: object) -> Model:
    return Model(name, what, breaks, {"Lives": {1, 2}, **changes}, SHARDS)


SMALL = (
    _model(
        "shards",
        "two shards, two lives of one, begin at the end of a topic that grows",
        Lives={1, 2, 3},
        Begins={1},
        Parts={1, 2},
    ),
    _model(
        "shards-lives",
        "two lives of each, and a topic that does not grow",
        Parts={1, 2},
    ),
    _model(
        "shards-created",
        "before the table is there, which both create; a record is refused before",
        Missing=True,
        Lives={1, 2},
        Begins={1},
        Parts={1, 2},
        Bad={1},
    ),
)
MUTANTS = (
    _mutant(
        "all beginnings",
        "I1 I2",
        "the first shard writes the beginnings of its own chain alone",
    ),
    _mutant("added at 0", "I2", "a partition that is added later begins at its end as well"),
    _mutant(
        "examined",
        "I2",
        "beginnings are written on a state that a sibling has begun in meanwhile",
    ),
    _mutant(
        "created with all",
        "I1 I2",
        "a table is created with the ledger of one shard, and the others begin in it by themselves",
        Missing=True,
    ),
)
