"""The models of publishing, and their mutants.

The specifications are docs/design/spec/Publish.tla, and PublishTasks.tla where tasks are several;
models and mutants are as in models.py.
"""

from __future__ import annotations

from tests.proof.models import Model, Specification, faults

PUBLISH = Specification(
    "Publish",
    ("Q1_NoDup", "Q2_NoLoss", "Q3_Atomic", "Q4_Fenced", "Q5_Order", "Q6_Witnesses"),
    {
        "Many": 2,
        "Runs": {1, 2},
        "MaxEpoch": 4,
        "Latest": False,
        "Faults": set(),
        "MaxFaults": 0,
        "Off": set(),
    },
)

TASKS = Specification(
    "PublishTasks",
    ("Q1_NoDup", "Q2_NoLoss", "Q4_Fenced"),
    {"One": 3, "Two": 2, "Three": 0, "MaxTerm": 5, "Off": set()},
)


def _model(name: str, what: str, **changes: object) -> Model:
    return Model(name, what, changes=changes, specification=PUBLISH)


def _mutant(name: str, breaks: str, what: str, **changes: object) -> Model:
    return Model(name, what, breaks, changes, PUBLISH)


def _tasks(name: str, breaks: str, what: str, **changes: object) -> Model:
    return Model(name, what, breaks, changes, TASKS)


SMALL = (
    _model("publish-tiny", "two runs that die, sleep and lose answers", MaxEpoch=3, Many=1),
    _model("publish", "the same, four terms, three rows"),
    _model("publish-latest", "a start at the end of a source that grows", Many=1, Latest=True),
    _model(
        "publish-attempts",
        "a task that runs twice, and reads other rows",
        **faults("second attempt"),
    ),
    _tasks("tasks-3-2", "", "three tasks, then two"),
    _tasks("tasks-1-3", "", "one task, then three", One=1, Two=3),
    _tasks("tasks-3-1-2", "", "three tasks, one, two", Two=1, Three=2),
    *(
        _model(f"publish-{name}", what, **faults(*several, times=1, Many=1))
        for name, what, several in (
            (
                "terms",
                "transactions time out, terms are taken by late requests",
                ("expire", "stray"),
            ),
            ("forgotten", "the coordinator forgets the id", ("forget",)),
            ("cut", "the ledger goes back, to any of its transactions, or to nothing", ("cut",)),
            ("keys", "the ledger loses a key", ("lose",)),
            ("topics", "a target is deleted and made again", ("recreate",)),
            ("strangers", "a stranger's transaction is open in the ledger", ("stranger",)),
        )
    ),
)
MUTANTS = (
    _mutant("look before fence", "Q1 Q2 Q4", "the ledger is read before the id is taken"),
    _mutant(
        "look below the high watermark",
        "Q1 Q4",
        "the ledger is read up to where a stranger's transaction is open",
        **faults("stranger"),
    ),
    _mutant(
        "ledger outside the transaction",
        "Q2",
        "positions count though their transaction was aborted",
    ),
    _mutant("no new term", "Q1 Q2 Q3", "one term serves several transactions"),
    _mutant(
        "take in place of renew",
        "Q4",
        "whoever is in doubt takes the id, though another run may have it",
        MaxEpoch=5,
    ),
    _mutant("no begin", "Q2", "a run sends before it ended a transaction", Latest=True),
    _mutant("start not written", "Q2", "a start is looked for again", Latest=True),
    _mutant("a lost end taken for done", "Q2", "an end without an answer counts as done"),
    _mutant("a lost end taken for failed", "Q1", "an end without an answer counts as failed"),
    _mutant("no look after renew", "Q1 Q2", "what was asked for before the doubt is believed"),
    _mutant(
        "second attempt sends",
        "Q2 Q3",
        "a copy of a task sends as well",
        **faults("second attempt"),
    ),
    _mutant(
        "end although a task ran twice",
        "Q2 Q3",
        "a transaction ends though a stage was repeated",
        **faults("second attempt"),
    ),
    _mutant(
        "end while a worker may still send",
        "Q1 Q3",
        "what is not heard of is taken for not sent",
    ),
    _mutant("end again after look", "Q1", "an end is sent again after its ledger was looked at"),
    _mutant("abort and go on under one term", "Q3", "what failed is aborted under its own term"),
    _mutant(
        "positions not counted",
        "Q1 Q6",
        "a ledger is believed that lost positions",
        **faults("lose"),
    ),
    _mutant("told before the end", "Q2", "the source hears of positions that may be aborted"),
    _mutant(
        "tail not looked at",
        "Q1 Q6",
        "a ledger is believed whatever is behind its receipts",
        **faults("cut"),
    ),
    _mutant(
        "tail without a ledger",
        "Q1 Q2 Q6",
        "where no ledger is, the targets are not looked at",
        **faults("cut"),
    ),
    _mutant(
        "tail after a doubt",
        "Q1 Q6",
        "a renewed run believes the ledger as it is",
        **faults("cut"),
    ),
    _mutant(
        "between notice and fence",
        "Q1 Q6",
        "what the coordinator remembered counts though another transaction may have ended since",
        **faults("cut"),
    ),
    _mutant(
        "forgotten id",
        "Q1 Q4",
        "a renewal that creates the id again counts",
        **faults("forget", Many=1),
    ),
    _mutant("partition to two senders", "Q2 Q3", "both workers write one partition"),
    _mutant(
        "ends of the targets",
        "Q6",
        "a start does not look whether the targets have what receipts name",
        **faults("recreate"),
    ),
    _mutant(
        "ids of the ledger",
        "Q6",
        "an epoch is planned on whatever topics are there",
        **faults("recreate"),
    ),
    _mutant(
        "ids before the end",
        "Q3",
        "a transaction ends whose topic was made again meanwhile",
        **faults("recreate"),
    ),
    _tasks("only present ids fenced", "Q1 Q4", "a start fences the ids of its own tasks alone"),
    _tasks("fence before announce", "Q1 Q4", "a start fences before it says whose the ids are"),
    _tasks(
        "look before the others",
        "Q1 Q4",
        "a start looks before it has fenced all ids",
    ),
    _tasks(
        "claim not read again",
        "Q1 Q4",
        "a start that takes id 0 twice does not look whose the claim is then",
    ),
    _tasks("claim not read after init", "Q1 Q4", "a task sends whoever has the claim"),
    _tasks("tasks before begin", "Q1 Q4", "tasks send before their run ended a transaction"),
)
