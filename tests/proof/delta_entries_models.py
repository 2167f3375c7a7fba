"""The models of row ids and times of versions in Delta, and their mutants.

The specification is docs/design/spec/DeltaEntries.tla; models and mutants are as in models.py.
"""

from __future__ import annotations

from tests.proof.models import Model, Specification, faults

DELTA_ENTRIES = Specification(
    "DeltaEntries",
    ("R1_Ids", "R2_Times", "R3_Kept"),
    {
        "Writers": {"a", "b"},
        "MaxVersions": 5,
        "MaxClock": 3,
        "Moves": False,
        "Faults": set(),
        "MaxFaults": 0,
        "Off": set(),
    },
)

MOVES: dict[str, object] = {"Moves": True, "MaxVersions": 3, "MaxClock": 2}


def _mutant(name: str, breaks: str, what: str, **changes: object) -> Model:
    return Model(name, what, breaks, changes, DELTA_ENTRIES)


SMALL = (
    Model(
        "delta-entries",
        "two writers, whose clocks differ, beside an engine that reserves ids; three faults",
        changes=faults("reserve", "checkpoint", times=3),
        specification=DELTA_ENTRIES,
    ),
    Model(
        "delta-entries-moved",
        "the same where rows are moved to other files; two faults",
        changes=faults("reserve", "checkpoint", **MOVES),
        specification=DELTA_ENTRIES,
    ),
    Model(
        "delta-entries-enabled",
        "the same in a table whose rows keep their ids from any moment on",
        changes=faults("enable", "checkpoint", **MOVES),
        specification=DELTA_ENTRIES,
    ),
)
MUTANTS = (
    _mutant(
        "each attempt",
        "R1",
        "an entry that lost its race is put again with the ids and the time it had",
    ),
    _mutant(
        "mark moves",
        "R1",
        "an entry gives rows ids, and the mark stays where it was",
    ),
    _mutant(
        "domains kept",
        "R1",
        "a checkpoint forgets the metadata domains, and with them the mark",
        **faults("checkpoint"),
    ),
    _mutant(
        "next version",
        "R1",
        "a request that comes late is put after a version that it was not made for",
    ),
    _mutant(
        "copies tell ids",
        "R3",
        "a row that is moved to another file brings no id",
        **MOVES,
    ),
    _mutant(
        "kept since read",
        "R3",
        "files that were read before rows kept their ids land after",
        **faults("enable", **MOVES),
    ),
    _mutant(
        "later than before",
        "R2",
        "a version has the time of its writer's clock, whatever the one before has",
    ),
)
