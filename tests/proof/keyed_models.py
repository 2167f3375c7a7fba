"""The models of what keyed tables add to the commit protocol, and their mutants.

The specification is docs/design/spec/Keyed.tla; models and mutants are as in models.py.
"""

from __future__ import annotations

from tests.proof.models import Model, Specification, faults

KEYED = Specification(
    "Keyed",
    ("K1_Fold", "K2_OneRow", "K3_Base", "K5_Books", "K7_OneVerdict", "K8_Across"),
    {
        "Shape": "puts",
        "Lives": {1, 2},
        "Elder": set(),
        "Faults": set(),
        "MaxFaults": 0,
        "Off": set(),
        "MaxEpochs": 2,
        "MaxWaiting": 2,
        "Copies": False,
    },
)
OTHERS = ("compact", "delete", "put")
"""What others may do to rows and files."""


def _model(name: str, what: str, **changes: object) -> Model:
    return Model(name, what, changes=changes, specification=KEYED)


def _mutant(name: str, breaks: str, what: str, **changes: object) -> Model:
    return Model(name, what, breaks, changes, KEYED)


SMALL = (
    _model(
        "keyed",
        "others compact, delete and upsert; the store is lost, or comes back from a backup",
        **faults(*OTHERS, "lose", "restore", times=2, Shape="dels"),
    ),
    _model(
        "keyed-moves",
        "a record that gives a row another key",
        **faults(*OTHERS, times=2, Shape="moves"),
    ),
    _model(
        "keyed-slices",
        "slices that stop early, run twice; keys in two partitions",
        **faults("compact", "lose", times=1, Shape="slices"),
    ),
    _model(
        "keyed-late",
        "a sequence other than that of the log",
        **faults(*OTHERS, times=2, Shape="late"),
    ),
    _model(
        "keyed-erased",
        "a delete whose sequence is higher than that of the next change",
        **faults(*OTHERS, "lose", "restore", times=2, Shape="erased"),
    ),
    _model(
        "keyed-purged",
        "rows of deleted keys are purged beside it, while the key gets a row again",
        **faults("purge", *OTHERS, "lose", times=2, Shape="purged"),
    ),
    _model(
        "keyed-purged-late",
        "rows of deleted keys are purged where no change of a lower sequence is to come",
        **faults("purge", "compact", "lose", "restore", times=2, Shape="erased"),
    ),
    _model(
        "keyed-purged-back",
        "a purge that is rolled back, history expired",
        **faults("purge", "rollback", "expire", "compact", times=3, MaxEpochs=3, Shape="purged"),
    ),
    _model(
        "keyed-retries",
        "refused records that land after all",
        **faults("retry", *OTHERS, "lose", times=2, Shape="bad"),
    ),
    _model(
        "keyed-retries-deleted",
        "refused records of a key that was deleted since",
        **faults("retry", *OTHERS, "lose", times=2, Shape="gone"),
    ),
    _model(
        "keyed-retries-apart",
        "refused records of two partitions",
        **faults("retry", *OTHERS, "lose", times=2, Shape="apart"),
    ),
    _model(
        "keyed-retries-late",
        "refused records of two partitions, with sequences",
        **faults("retry", *OTHERS, "lose", times=2, Shape="tried"),
    ),
    _model(
        "keyed-rollbacks",
        "commits of deletes alone, rolled back, history expired",
        **faults("rollback", "expire", "compact", "delete", times=3, MaxEpochs=3, Shape="dels"),
    ),
    _model(
        "keyed-again",
        "a table made again, with files of the same names",
        **faults("recreate", "put", times=2, Shape="dels"),
    ),
    _model(
        "keyed-topics",
        "a topic made again under its name",
        **faults("retopic", "compact", "lose", Shape="retopic"),
    ),
    _model(
        "keyed-growth",
        "a partition that is added, and producers that have not heard of it",
        **faults("lose", "compact", times=1, Shape="grown"),
    ),
    _model(
        "keyed-growth-of-two",
        "a partition that is added to two; a key moves from one of these to the other",
        **faults("lose", times=1, Shape="moved"),
    ),
    _model(
        "keyed-equality",
        "equality deletes of others",
        **faults("equality", "compact", "lose", Shape="dels"),
    ),
    _model(
        "keyed-verdicts",
        "a record that needs the row it replaces",
        **faults("delete", "lose", Shape="fill"),
    ),
    _model(
        "keyed-purged-copies",
        "a purge rewrites the files that lose rows, while the key gets a row again",
        **faults("purge", "compact", "delete", times=2, Shape="purged", Copies=True),
    ),
    _model(
        "keyed-copies",
        "touched files are rewritten; others compact, delete and upsert; the store is lost, or "
        "comes back from a backup",
        **faults(*OTHERS, "lose", "restore", times=2, Shape="dels", Copies=True),
    ),
    _model(
        "keyed-copies-late",
        "touched files are rewritten, the commit's own for late rows",
        **faults(*OTHERS, times=2, Shape="late", Copies=True),
    ),
    _model(
        "keyed-copies-rolled-back",
        "touched files are rewritten; rollbacks, history expired",
        **faults(
            "rollback",
            "expire",
            "compact",
            "delete",
            times=3,
            MaxEpochs=3,
            Shape="dels",
            Copies=True,
        ),
    ),
)
LARGE = (
    _model(
        "keyed-three-faults",
        "as keyed, three faults in a history",
        **faults(*OTHERS, "lose", "restore", times=3, Shape="dels"),
    ),
)
MUTANTS = (
    _mutant(
        "head",
        "K1 K3",
        "a commit lands at the ledger's position, whatever others did to the rows",
        **faults("compact", "delete", times=1),
    ),
    _mutant(
        "resolved at the commit",
        "K1",
        "marks are made when a commit is prepared, and kept",
        **faults("compact"),
    ),
    _mutant("behind the former", "K1", "an epoch is resolved before the former one has landed"),
    _mutant(
        "accepted attempt",
        "K1",
        "what is merged is of whatever attempts of a slice are found",
        Shape="slices",
    ),
    _mutant(
        "net by partition",
        "K1",
        "a slice keeps one change a key, whatever partitions it read",
        Shape="slices",
    ),
    _mutant(
        "superseded rows",
        "K1 K2",
        "a row stays in its file though a change of another slice supersedes it",
        Shape="slices",
    ),
    _mutant(
        "delete state",
        "K1 K3",
        "a look-up is used again though rows of its file were deleted since",
        **faults("delete", times=2),
    ),
    _mutant(
        "decide first",
        "K1",
        "a commit is resolved and sent before it is asked whether it has landed",
        **faults("restore", Shape="dels"),
    ),
    _mutant("order of the fold", "K1", "changes of a key are netted in the order of arrival"),
    _mutant("touched keys", "K1", "only rows that are written replace rows", Shape="dels"),
    _mutant(
        "late in its own file", "K1", "a late row replaces the row it is late for", Shape="late"
    ),
    _mutant(
        "deletes keep their sequence",
        "K1",
        "a delete leaves no row, so that a later change of a lower sequence brings one back",
        Shape="erased",
    ),
    _mutant(
        "purge on the examined state",
        "K1 K3",
        "a purge removes what it found, though the key got a row meanwhile",
        **faults("purge", Shape="purged"),
    ),
    _mutant(
        "purge keeps the ledger",
        "K1",
        "a purge writes a ledger that knows nothing of what has landed",
        **faults("purge", Shape="purged", MaxEpochs=3),
    ),
    _mutant(
        "purge behind the lateness",
        "K1",
        "the row of a deleted key is purged while a change of a lower sequence is still to come",
        **faults("purge", Shape="erased"),
    ),
    _mutant(
        "no verdict by the head",
        "K1 K7",
        "a record is refused for what the table does not have at the commit",
        **faults("delete", Shape="fill"),
    ),
    _mutant(
        "own witness",
        "K1",
        "a retried record replaces a row that is later than it",
        **faults("retry", Shape="bad"),
    ),
    _mutant(
        "absent keys are asked for",
        "K1",
        "a retry brings back the row of a key that was deleted since",
        **faults("retry", Shape="gone"),
    ),
    _mutant(
        "retries in a known order",
        "K1",
        "a retried record replaces a row of which nobody knows whether it is later",
        **faults("retry", Shape="apart"),
    ),
    _mutant(
        "one topic of a name",
        "K1",
        "offsets are compared though they are those of two topics of one name",
        **faults("retopic", Shape="retopic"),
    ),
    _mutant(
        "identity of a file",
        "K1 K3",
        "a file is known by its name, though its table was made again",
        **faults("recreate", "put", times=3, Shape="dels"),
    ),
    _mutant(
        "former marks",
        "K1 K2",
        "an entry is taken out by its path, without the marks it bears",
        **faults("delete"),
    ),
    _mutant(
        "marks are changes",
        "K1",
        "a commit of deletes alone has no witness of its own",
        **faults("rollback", "expire", "compact", MaxEpochs=3, Shape="dels"),
    ),
    _mutant(
        "absent deletes",
        "K1",
        "a commit that deletes rows that others had deleted counts as one without changes",
        **faults("rollback", "expire", "delete", MaxEpochs=3, Shape="dels"),
    ),
    _mutant(
        "copied on the head",
        "K1 K3",
        "files are rewritten from another head than the one that is committed on",
        **faults("compact", "delete", times=1, Copies=True),
    ),
    _mutant(
        "copied again",
        "K1 K3",
        "a file that was rewritten is used again though rows of the original were deleted since",
        **faults("delete", times=2, Copies=True),
    ),
    _mutant(
        "copies of live rows",
        "K1 K2",
        "a rewritten file has the rows that were deleted before",
        **faults("delete", Copies=True),
    ),
    _mutant(
        "copied files go",
        "K1 K2",
        "a file stays beside the one that it was rewritten to",
        Copies=True,
    ),
    _mutant("copied rows are not new", "K5", "rewritten rows count as landed", Copies=True),
    _mutant("ledger version", "K1 K2", "a release that knows no keys appends", Elder={2}),
    _mutant("half counts", "K5", "both halves of a change of key count", Shape="moves"),
    _mutant(
        "equality deletes at each turn",
        "K3",
        "equality deletes are looked for at the start alone",
        **faults("equality"),
    ),
    _mutant("growth", "K8", "a table stops at a key that a new partition took over", Shape="grown"),
    _mutant(
        "ends of the growth",
        "K8",
        "whatever a former partition has counts as older",
        Shape="grown",
    ),
    _mutant(
        "growth barrier",
        "K1",
        "a new partition is read before the former ones are level",
        Shape="grown",
    ),
    _mutant(
        "growth at the commit",
        "K1",
        "a commit lands beyond the ends of a growth that it was prepared without",
        Shape="moved",
    ),
    _mutant(
        "former behind the ends",
        "K1",
        "a former partition is read on before all former ones are level",
        Shape="moved",
    ),
)
