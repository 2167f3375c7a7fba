"""Tables are maintained beside a pipeline: every record ends in one place, and audits agree."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.simulation.histories import reported
from tests.simulation.keyed_histories import broken
from tests.simulation.maintained_histories import (
    KeyedMaintainedPlay,
    KeyedUpkeptPlay,
    MaintainedPlay,
    PurgedMaintainedPlay,
    RewritingMaintainedPlay,
    UpkeptPlay,
)
from tests.simulation.test_keyed_audits import AuditedPlay, played
from tests.story.backend import MemoryGround, catalog_name
from tests.story.keyed import KeyedWorld, gone, put
from tests.story.maintenance import maintained
from tests.story.world import ORDERS

from penstock.commit.moved_rows import MovedRows
from penstock.connectors.memory.upkeep import MemoryUpkeep
from penstock.core.sweeps import name_of

WAYS = ("alone", "beside a life", "within a life", "with faults", "crash", "twice")


class AuditedMaintenance(AuditedPlay, KeyedMaintainedPlay):
    """Histories with maintenance whose tables are audited after each life."""


def test_every_record_ends_in_one_place_while_tables_are_maintained():
    hit = Counter()
    texts = [text for seed in range(40) if (text := reported(seed, hit, MaintainedPlay))]

    assert not texts, "\n\n".join(texts)
    assert all(hit[f"maintain {way}: groups"] > 0 for way in WAYS), hit
    assert hit["maintain twice: given up"] > 0


@pytest.mark.parametrize("play", [UpkeptPlay, KeyedUpkeptPlay])
def test_no_file_goes_that_is_named_while_snapshots_expire_and_files_are_swept(play):
    hit = Counter()
    texts = [text for seed in range(25) if (text := reported(seed, hit, play))]

    assert not texts, "\n\n".join(texts)
    for what in ("expired", "noted", "deleted"):
        assert sum(hit[f"upkeep {way}: {what}"] for way in WAYS) > 10, hit


def of_the_head(upkeep: MemoryUpkeep):
    """Name the files of the head alone."""
    return {name_of(file.path) for file in upkeep._contents.files}


def test_a_sweep_that_asks_the_head_alone_is_found_out(monkeypatch):
    monkeypatch.setattr(MemoryUpkeep, "named", of_the_head)
    assert any(reported(seed, Counter(), UpkeptPlay) for seed in range(150))


@pytest.mark.parametrize(
    "play", [KeyedMaintainedPlay, PurgedMaintainedPlay, RewritingMaintainedPlay]
)
def test_the_rows_of_keyed_tables_are_the_fold_while_they_are_maintained(play):
    hit = Counter()
    texts = broken(range(10), hit, play)

    assert not texts, "\n\n".join(texts)
    assert sum(hit[f"maintain {way}: groups"] for way in WAYS) > 10
    assert sum(hit[f"maintain {way}: carried"] for way in WAYS) > 0


def test_an_audit_agrees_with_the_truth_while_tables_are_maintained():
    wrong, compared = played(range(6), AuditedMaintenance)

    assert [] == wrong
    assert compared > 40


def deleted_meanwhile(world: KeyedWorld):
    """Maintain a table of two files; a key is deleted once they are written again."""
    for keys in ((1, 2), (3,)):
        put(world, *keys)
        world.run()

    def meanwhile() -> None:
        gone(world, 2)
        world.run()

    return maintained(world, ORDERS, meanwhile=meanwhile)


def test_a_row_that_is_deleted_while_files_are_written_again_stays_deleted():
    world = KeyedWorld(MemoryGround())
    done, error = deleted_meanwhile(world)

    assert (None, 1, 1, 0) == (error, done.groups, done.carried, done.given_up)
    assert [1, 3] == sorted(row["n"] for row in world.ground.warehouse.rows(catalog_name(ORDERS)))
    assert [] == world.breaks()


@pytest.mark.parametrize("shift", [None, -1], ids=["forgotten", "the row before"])
def test_deletes_that_do_not_come_with_their_rows_are_found_out(monkeypatch, shift):
    fitted = MovedRows.fitted

    def wrong(self, *given):
        found = fitted(self, *given)
        moved = () if shift is None else tuple(each.positions + shift for each in found.row_deletes)
        return replace(
            found,
            row_deletes=tuple(
                replace(each, positions=at)
                for each, at in zip(found.row_deletes, moved, strict=False)
            ),
        )

    monkeypatch.setattr(MovedRows, "fitted", wrong)
    world = KeyedWorld(MemoryGround())
    deleted_meanwhile(world)

    assert world.breaks()
