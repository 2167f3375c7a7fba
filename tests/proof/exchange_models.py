"""The models of the exchange of rows by partition, and their mutants.

The specification is docs/design/spec/Exchange.tla; models and mutants are as in models.py.
"""

from __future__ import annotations

from tests.proof.models import Model, Specification, faults

EXCHANGE = Specification(
    "Exchange",
    ("I1_NoDup", "I2_NoLoss"),
    {"Attempts": {1, 2}, "Epochs": 2, "Faults": set(), "MaxFaults": 0, "Off": set()},
)


def _model(name: str, what: str, breaks: str = "", **changes: object) -> Model:
    return Model(name, what, breaks, changes, EXCHANGE)


SMALL = (
    _model(
        "exchange",
        "attempts at slices and shares, those of an epoch that is over among them; the range is read again",
    ),
    _model(
        "exchange-harmed",
        "exchange files are lost, cut short, and put in the place of each other",
        **faults("lost", "cut", "foreign", Attempts={1}),
    ),
)
MUTANTS = (
    _model(
        "one attempt a slice",
        "all attempts that answered are dealt: a slice twice",
        "I1",
        Epochs=1,
    ),
    _model("all slices", "what has answered is dealt: a slice is missing", "I2", Epochs=1),
    _model(
        "results of this run",
        "an answer of the epoch before counts: its slices were cut elsewhere",
        "I1 I2",
        Attempts={1},
    ),
    _model("one result a share", "all attempts at a share are landed", "I1", Epochs=1),
    _model("all shares", "what has been written lands: a share is missing", "I2", Epochs=1),
    _model(
        "refused shares",
        "a share that was refused counts as one without rows",
        "I2",
        **faults("lost", Attempts={1}, Epochs=1),
    ),
    _model(
        "checksum",
        "what an exchange file holds is believed",
        "I1 I2",
        **faults("cut", "foreign", Attempts={1}, Epochs=1),
    ),
)
