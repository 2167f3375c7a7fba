"""Random histories of keyed tables, each exact in the end; and planted faults that they find."""

from dataclasses import replace

import numpy as np
import pytest
from tests.simulation.keyed_histories import RewritingPlay, SequencedPlay, SoftPlay, broken

from penstock.commit import rewriting, row_deltas
from penstock.core.accounting import Tally
from penstock.files.positions import NONE
from penstock.landing.task import changes
from penstock.ports.row_deletes import LiveFile, RowDeletes
from penstock.rows.keyed import merge, net

BLOCK = 25


@pytest.mark.parametrize("block", range(4))
def test_the_rows_of_keyed_tables_are_the_fold_of_the_log_whatever_happens(block):
    texts = broken(range(BLOCK * block, BLOCK * block + BLOCK))

    assert not texts, "\n\n".join(texts)


def test_the_rows_of_keyed_tables_are_the_fold_where_deletes_leave_a_row():
    texts = broken(range(10), play=SoftPlay)

    assert not texts, "\n\n".join(texts)


def test_the_rows_of_keyed_tables_are_the_fold_by_sequence_whatever_order_changes_come_in():
    texts = broken(range(20), play=SequencedPlay)

    assert not texts, "\n\n".join(texts)


def test_the_rows_of_keyed_tables_are_the_fold_where_files_are_written_again():
    texts = broken(range(20), play=RewritingPlay)

    assert not texts, "\n\n".join(texts)


def test_histories_go_wrong_where_rows_of_the_commit_s_own_files_are_written_again(monkeypatch):
    def whole(state, table, deletes, file):
        given = deletes if isinstance(file, LiveFile) else replace(deletes, positions=NONE)
        return staying(state, table, given, file)

    staying = rewriting._staying
    monkeypatch.setattr(rewriting, "_staying", whole)
    monkeypatch.setattr(RowDeletes, "leave", lambda *_: True)

    assert len(broken(range(10), play=RewritingPlay)) > 3


def test_histories_go_wrong_where_a_late_row_replaces_the_row_it_is_late_for(monkeypatch):
    def none_above(self, hits):
        none = np.zeros(len(hits.keys), np.int64)
        return none, none > 0, none == 0

    monkeypatch.setattr(row_deltas.RowDeltaResolver, "_by_sequence", none_above)

    assert len(broken(range(10), play=SequencedPlay)) > 3


def test_histories_go_wrong_where_superseded_rows_stay_in_their_files(monkeypatch):
    read = row_deltas.touched_from_bytes

    def without_own_deletes(content):
        found = read(content)
        object.__setattr__(found, "superseded_file", np.zeros(0, np.int32))
        object.__setattr__(found, "superseded_row", np.zeros(0, np.int64))
        return found

    monkeypatch.setattr(row_deltas, "touched_from_bytes", without_own_deletes)

    assert len(broken(range(25))) > 3


def test_histories_go_wrong_where_the_last_result_to_arrive_counts(monkeypatch):
    monkeypatch.setattr(merge, "_ranks", lambda touched: np.arange(len(touched.offset)))

    assert len(broken(range(25))) > 2


def test_histories_go_wrong_where_a_slice_keeps_the_first_change_of_a_key(monkeypatch):
    def backwards(given, *columns):
        turned = net.Changes(
            given.rows, given.upsert, given.counts, given.lane, -given.offset, given.sub
        )
        kept = net.net_by_lane(turned, *columns)
        kept.changes.offset[:] *= -1
        return kept

    monkeypatch.setattr(changes, "net_by_lane", backwards)

    assert len(broken(range(25))) > 3


def test_histories_go_wrong_where_superseded_changes_are_counted_as_landed(monkeypatch):
    monkeypatch.setattr(Tally, "after_merge", lambda books, _: books)

    assert len(broken(range(10))) > 2
