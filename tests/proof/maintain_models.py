"""The models of maintenance, and their mutants.

The specification is docs/design/spec/Maintain.tla; models and mutants are as in models.py.
"""

from __future__ import annotations

from tests.proof.models import Model, Specification, faults

MAINTAIN = Specification(
    "Maintain",
    ("M1_Rows", "M2_Verdict", "M3_Files", "M4_Refs", "M5_Witnesses"),
    {
        "Acts": {"rearrange", "expire", "sweep"},
        "Landings": 2,
        "Deletes": set(),
        "MaxSnaps": 4,
        "Faults": set(),
        "MaxFaults": 0,
        "Off": set(),
    },
)


def _model(name: str, what: str, *acts: str, **changes: object) -> Model:
    return Model(name, what, changes={"Acts": set(acts), **changes}, specification=MAINTAIN)


def _mutant(name: str, breaks: str, what: str, *acts: str, **changes: object) -> Model:
    return Model(name, what, breaks, {"Acts": set(acts), **changes}, MAINTAIN)


SMALL = (
    _model(
        "maintain-rearrange",
        "files are rearranged while others append, delete, roll back, expire; three faults",
        "rearrange",
        **faults("delete", "rollback", "append", "expire", times=3, MaxSnaps=5),
    ),
    _model(
        "maintain-beside",
        "the same while others compact, so that some of the files are gone; two faults",
        "rearrange",
        **faults("compact", "delete", "append", "rollback", times=2, MaxSnaps=5),
    ),
    _model(
        "maintain-keyed",
        "the same in a keyed table, whose row deletes are carried over",
        "rearrange",
        **faults("delete", "rollback", "expire", times=2, MaxSnaps=6, Landings=3, Deletes={3}),
    ),
    _model(
        "maintain-expire",
        "snapshots expire while others append, compact, roll back, hold snapshots; three faults",
        "expire",
        **faults("rollback", "ref", "append", "compact", times=3, MaxSnaps=6),
    ),
    _model(
        "maintain-sweep",
        "files that nothing names are deleted, while a former life lands, and others roll back",
        "sweep",
        **faults("other", "rollback", "append", times=2),
    ),
    _model(
        "maintain-pipelined",
        "the same, while a commit lands and the next one's file is written",
        "sweep",
        **faults("other", Landings=3, Deletes={2}),
    ),
    _model(
        "maintain-eras",
        "files of rearrangements that sleep are deleted",
        "sweep",
        "rearrange",
        **faults("rollback", "append", times=1),
    ),
    _model(
        "maintain-all",
        "all three, side by side",
        "rearrange",
        "expire",
        "sweep",
        **faults("append", MaxSnaps=3, Landings=1),
    ),
)
MUTANTS = (
    _mutant(
        "sound before",
        "M2",
        "a table that was rolled back is maintained",
        "rearrange",
        **faults("rollback", Landings=3),
    ),
    _mutant(
        "certain before",
        "M2 M5",
        "a table is maintained of which no witness is certain",
        "rearrange",
        **faults("rollback", "append", "expire", MaxSnaps=5),
    ),
    _mutant(
        "inputs live",
        "M1",
        "rows land again that left the table with their file meanwhile",
        "rearrange",
        **faults("append", "rollback", Landings=1, MaxSnaps=3),
    ),
    _mutant(
        "deletes applied",
        "M1",
        "row deletes that land meanwhile are forgotten",
        "rearrange",
        **faults("delete"),
    ),
    _mutant(
        "deletes equal",
        "M1",
        "row deletes that are rolled back meanwhile stay applied",
        "rearrange",
        **faults("delete", "rollback", MaxSnaps=5),
    ),
    _mutant(
        "carried",
        "M5",
        "the witness of the newest rows stays with files that are gone",
        "rearrange",
        **faults("expire", "append", MaxSnaps=5),
    ),
    _mutant(
        "bridge",
        "M5",
        "the snapshot that vouches expires below a compaction of others",
        "expire",
        **faults("compact"),
    ),
    _mutant(
        "refs asserted",
        "M4",
        "a ref that moved meanwhile is not looked at again",
        "expire",
        **faults("ref", times=2),
    ),
    _mutant(
        "head asserted",
        "M4",
        "a head that moved meanwhile is not looked at again",
        "expire",
        **faults("append", "rollback", Landings=1, MaxSnaps=3),
    ),
    _mutant(
        "era",
        "M3",
        "a rearrangement lands though its files were swept",
        "sweep",
        "rearrange",
    ),
    _mutant(
        "fenced since",
        "M3",
        "whatever commit came since lets a file go, not only one that fences former lives",
        "sweep",
        **faults("other", "append", Landings=1, MaxSnaps=3),
    ),
    _mutant(
        "all snapshots",
        "M3",
        "only snapshots behind the head name files, not those of what was rolled back",
        "sweep",
        **faults("append", "rollback"),
    ),
    _mutant(
        "young",
        "M3",
        "files of an epoch that is being written are listed",
        "sweep",
        Landings=3,
        Deletes={2},
        MaxSnaps=3,
    ),
    _mutant(
        "named again",
        "M3",
        "what was named since it was noted is deleted",
        "sweep",
        **faults("other", Landings=1, MaxSnaps=3),
    ),
)
