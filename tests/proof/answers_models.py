"""The models of what is kept of a catalog's answers, and their mutants.

The specification is docs/design/spec/Answers.tla; models and mutants are as in models.py.
"""

from __future__ import annotations

from tests.proof.models import Model, Specification, faults

ANSWERS = Specification(
    "Answers",
    ("I1_NoDup", "I2_NoLoss", "I6_FilesLive"),
    {
        "Lives": {1, 2},
        "N": 2,
        "Files": 4,
        "Fronted": False,
        "Stale": False,
        "Faults": set(),
        "MaxFaults": 0,
        "Off": set(),
    },
)


def _model(name: str, what: str, breaks: str = "", **changes: object) -> Model:
    return Model(name, what, breaks, changes, ANSWERS)


SMALL = (
    _model(
        "answers-pointer",
        "a catalog that says OK and did nothing, lives that die, requests that are late; metadata is kept",
        **faults("liar", "dies", times=2),
    ),
    _model(
        "answers-fronted",
        "the same with a cache in front, which vouches for whatever it ever heard of",
        **faults("liar", "dies", times=2, Fronted=True),
    ),
    _model(
        "answers-stale",
        "the same where what is examined is any state that ever was: it breaks nothing",
        **faults("liar", "dies", times=2, Fronted=True, Stale=True),
    ),
)
MUTANTS = (
    _model(
        "pointer read back",
        "an OK is believed: what was to be written is taken for what is there",
        "I2",
        **faults("liar"),
    ),
    _model(
        "ETag of the commit believed",
        "a read-back asks whether the state has changed that the commit's own answer named",
        "I2",
        **faults("liar", Fronted=True),
    ),
    _model(
        "pointer compared",
        "a commit replaces whatever the catalog points at",
        "I1",
    ),
    _model(
        "written first",
        "the request is sent while its files are being written",
        "I6",
    ),
)
