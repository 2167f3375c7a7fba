"""Row deletes go with rows that were written again, into whatever files a writer put them."""

from dataclasses import replace
from random import Random  # noqa: TID251 - a seed for each case

import numpy as np
import pytest

from penstock.commit.moved_rows import CopiedFile, MovedRows
from penstock.core.commits import DataFile


class Moves:
    """Some files with rows left out, written again in a random order into others."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.rows = {f"f{at}": self.random.randint(1, 9) for at in range(4)}
        self.left_out = {path: self.some(path) for path in self.rows}
        self.order = [(p, at) for p in self.rows for at in self.live(p, self.left_out[p])]
        into = [self.random.randrange(3) for _ in self.order]
        self.files = [[] for _ in range(3)]
        for number in self.random.sample(range(len(into)), len(into)):
            self.files[into[number]].append(number)
        at = {number: place for file in self.files for place, number in enumerate(file)}
        places = np.array(into, np.int32), np.array([at[n] for n in range(len(into))], np.int64)
        self.moved = MovedRows(
            [
                CopiedFile(path, rows, self.state(self.left_out[path]), self.left_out[path])
                for path, rows in self.rows.items()
            ],
            tuple(DataFile(f"n{at}", len(file), 1, {}) for at, file in enumerate(self.files)),
            places,
            "p",
        )

    def some(self, path, but=()):
        rows = [at for at in range(self.rows[path]) if self.random.random() < 0.3]
        return np.array(sorted({*rows, *but}), np.int64)

    def live(self, path, deleted):
        return [at for at in range(self.rows[path]) if at not in deleted]

    def state(self, deleted):
        return ",".join(map(str, deleted))


@pytest.mark.parametrize("seed", range(50))
def test_what_is_live_then_is_what_was_live_in_the_files_that_went(seed):
    moves = Moves(seed)
    now = {path: moves.some(path, moves.left_out[path]) for path in moves.rows}
    if seed % 2:
        now.pop(moves.random.choice([*now]))
    states = {path: moves.state(deleted) for path, deleted in now.items()}
    found = moves.moved.fitted(states, now.__getitem__)
    if found is None:  # most rows were in the one that is gone
        gone = [n for n, (path, _) in enumerate(moves.order) if path not in now]
        assert len(gone) > len(moves.order) / 2
        return
    deleted = {each.path: {*each.positions.tolist()} for each in found.row_deletes}
    stay = {
        moves.order[number]
        for file, numbers in zip(moves.moved.files, moves.files, strict=True)
        if file in found.files
        for at, number in enumerate(numbers)
        if at not in deleted.get(file.path, ())
    }

    assert {(path, at) for path in now for at in moves.live(path, now[path])} == stay
    assert found.replaced == states
    assert all(each.are_within(9 * 4) and not each.delete_state for each in found.row_deletes)


def test_it_does_not_fit_where_it_landed_or_what_was_left_out_is_live_or_most_files_are_gone():
    source = [CopiedFile(path, 2, "", np.empty(0, np.int64)) for path in ("a", "b", "c")]
    left_out = CopiedFile("d", 2, "1", np.array([1]))
    places = np.zeros(7, np.int32), np.arange(7)
    moved = MovedRows([*source, left_out], (DataFile("n", 7, 1, {}),), places, "p")
    none = np.empty(0, np.int64)
    states = {"a": "", "b": "", "c": "", "d": "1"}

    assert moved.fitted(states, {}.__getitem__).replaced == states
    assert moved.fitted({**states, "n": ""}, {}.__getitem__) is None
    assert moved.fitted({**states, "d": ""}, {"d": none}.__getitem__) is None
    assert moved.fitted({"a": "", "d": "1"}, {}.__getitem__) is None
    assert moved.fitted({}, {}.__getitem__) is None


def test_files_whose_places_are_not_known_fit_where_no_other_row_was_deleted():
    moves = Moves(1)
    blind = replace(moves.moved, places=None)
    states = {path: moves.state(deleted) for path, deleted in moves.left_out.items()}
    found = blind.fitted(states, moves.left_out.__getitem__)
    assert found is not None
    assert (states, blind.files) == (found.replaced, found.files)

    path = next(path for path in moves.rows if moves.live(path, moves.left_out[path]))
    more = np.array(range(moves.rows[path]), np.int64)
    assert blind.fitted({**states, path: moves.state(more)}, lambda _: more) is None
