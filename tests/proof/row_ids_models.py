"""The models of row ids where files are written again, and their mutants.

The specification is docs/design/spec/RowIds.tla; models and mutants are as in models.py.
"""

from __future__ import annotations

from tests.proof.models import Model, Specification

ROW_IDS = Specification(
    "RowIds",
    ("R1_Kept", "R2_Once"),
    {"Rows": 3, "MaxCommits": 6, "MaxJobs": 2, "Begins": 3, "Off": set()},
)


def _model(name: str, what: str, breaks: str = "", **changes: object) -> Model:
    return Model(name, what, breaks, changes, ROW_IDS)


SMALL = (
    _model(
        "row-ids",
        "rows land and go, manifests are merged, files rearranged, another branch takes ids",
    ),
    _model("row-ids-upgraded", "the same in a table that is upgraded at any moment", Begins=2),
)
MUTANTS = (
    _model("ids written", "a row that is moved to another file brings no id", "R1"),
    _model("entries keep ids", "an entry is written again without its first id", "R1"),
    _model(
        "ids as read",
        "files that were read before their rows had ids land after",
        "R1",
        Begins=2,
    ),
    _model(
        "next id",
        "a commit that gives ids is not refused where another branch has taken them",
        "R2",
        Begins=2,
    ),
)
