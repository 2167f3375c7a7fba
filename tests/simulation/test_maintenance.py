"""Tables are maintained beside a pipeline: every record ends in one place, and audits agree."""

from collections import Counter

import pytest
from tests.simulation.histories import reported
from tests.simulation.keyed_histories import broken
from tests.simulation.maintained_histories import (
    KeyedMaintainedPlay,
    MaintainedPlay,
    PurgedMaintainedPlay,
    RewritingMaintainedPlay,
)
from tests.simulation.test_keyed_audits import AuditedPlay, played

WAYS = ("alone", "beside a life", "within a life", "with faults", "crash", "twice")


class AuditedMaintenance(AuditedPlay, KeyedMaintainedPlay):
    """Histories with maintenance whose tables are audited after each life."""


def test_every_record_ends_in_one_place_while_tables_are_maintained():
    hit = Counter()
    texts = [text for seed in range(150) if (text := reported(seed, hit, MaintainedPlay))]

    assert not texts, "\n\n".join(texts)
    assert all(hit[f"maintain {way}: groups"] > 3 for way in WAYS), hit
    assert hit["maintain beside a life: given up"] > 0


@pytest.mark.parametrize(
    "play", [KeyedMaintainedPlay, PurgedMaintainedPlay, RewritingMaintainedPlay]
)
def test_the_rows_of_keyed_tables_are_the_fold_while_they_are_maintained(play):
    hit = Counter()
    texts = broken(range(20), hit, play)

    assert not texts, "\n\n".join(texts)
    assert sum(hit[f"maintain {way}: groups"] for way in WAYS) > 10


def test_an_audit_agrees_with_the_truth_while_tables_are_maintained():
    wrong, compared = played(range(10), AuditedMaintenance)

    assert [] == wrong
    assert compared > 80
