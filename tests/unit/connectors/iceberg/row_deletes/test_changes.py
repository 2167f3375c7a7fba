"""What a commit with row deletes adds and takes away; nothing is written before all is checked."""

from functools import partial
from math import nan

import numpy as np
import pytest
from tests.unit.connectors.iceberg.row_deletes.test_live_rows import (
    DELETES,
    entry,
    file,
    found,
    vector,
)

from penstock.connectors.iceberg.files.manifest_entries import name_of
from penstock.connectors.iceberg.row_deletes.changes import (
    FILES_OF_THEIR_OWN_MAX,
    as_delete_files,
    as_vectors,
    row_changes,
)
from penstock.core.errors import BugError
from penstock.ports.row_deletes import RowDeletes

OLD_NEW = [("old", 3), ("new", 6)]


class Written:
    """Note which deletes are written in one file."""

    def __init__(self):
        self.files = []

    def __call__(self, deletes, like):
        self.files.append({path: positions.tolist() for path, positions in deletes.items()})
        return file(f"new-{len(self.files)}", DELETES, partition=like.partition, spec=like.spec_id)


def of(path, *positions, state=""):
    return RowDeletes(path, state, np.array(positions, np.int64))


def changed(live, *deletes, own=()):
    written = Written()
    write = partial(as_delete_files, live=live, write=written)
    changes = row_changes(own, live, deletes, "lake.orders", write)
    added = [each.file_path for each in changes.files]
    return written.files, added, [each.data_file.file_path for each in changes.removed]


def test_each_data_file_gets_a_delete_file_of_its_own():
    live = found([entry(file("a")), entry(file("b"))])

    assert (
        [{"a": [1]}, {"b": [0, 2]}],
        ["own", "new-1", "new-2"],
        [],
    ) == changed(live, of("a", 1), of("b", 0, 2), own=[file("own")])


def test_former_deletes_of_a_file_are_joined_and_leave():
    entries = [entry(file("a")), *(entry(file(d, DELETES, 1, bounds=["a"])) for d in "de")]
    live = found(entries, d={"a": [4]}, e={"a": [0]})

    assert ([{"a": [0, 1, 4]}], ["new-1"], ["d", "e"]) == changed(
        live, of("a", 1, state=live.delete_state("a"))
    )


def test_deletes_of_before_a_file_was_put_back_are_not_joined():
    """They are older than the file, so they delete nothing of it, and must not begin to."""
    entries = [entry(file("a"), 5), *(entry(file(d, DELETES, bounds=["a"]), n) for d, n in OLD_NEW)]
    live = found(entries, old={"a": [4]}, new={"a": [0]})

    assert ([{"a": [0, 1]}], ["new-1"], ["new"]) == changed(
        live, of("a", 1, state=live.delete_state("a"))
    )


def test_deletes_about_several_files_stay():
    entries = [entry(file("a")), entry(file("b")), entry(file("d", DELETES, 2))]
    live = found(entries, d={"a": [4], "b": [0]})

    assert ([{"a": [1]}], ["new-1"], []) == changed(live, of("a", 1, state=live.delete_state("a")))


def test_a_file_of_which_no_row_is_left_goes_with_its_deletes():
    entries = [
        entry(file("a", rows=3)),
        entry(file("d", DELETES, 1, bounds=["a"])),
        entry(file("e", DELETES, 1)),
    ]
    live = found(entries, d={"a": [2]}, e={"a": [0]})

    assert ([], [], ["a", "d"]) == changed(live, of("a", 1, state=live.delete_state("a")))


def test_an_own_file_of_which_no_row_is_left_never_comes():
    live = found([entry(file("a"))])
    own = [file("one", rows=2), file("two", rows=2)]

    assert ([{"two": [1]}], ["two", "new-1"], []) == changed(
        live, of("one", 0, 1), of("two", 1), own=own
    )


@pytest.mark.parametrize(
    ("count", "written"),
    [(FILES_OF_THEIR_OWN_MAX, FILES_OF_THEIR_OWN_MAX), (FILES_OF_THEIR_OWN_MAX + 1, 1)],
)
def test_where_many_files_of_a_partition_are_touched_one_file_names_them_all(count, written):
    names = [f"a{number:03}" for number in range(count)]
    entries = [
        *(entry(file(name, partition=("x",))) for name in names),
        entry(file("b", partition=("y",))),
        entry(file("d", DELETES, 1, bounds=[names[0]])),
    ]
    live = found(entries, d={names[0]: [9]})
    states = {name: live.delete_state(name) for name in (*names, "b")}
    files, _, gone = changed(live, *(of(name, 3, state=states[name]) for name in states))

    assert written + 1 == len(files)
    assert {"b": [3]} in files
    assert (["d"] if written > 1 else []) == gone
    assert written > 1 or {name: [3] for name in names} in files


def test_in_a_partition_of_nan_each_data_file_has_its_own():
    names = [f"a{number:03}" for number in range(FILES_OF_THEIR_OWN_MAX + 1)]
    live = found([entry(file(name, partition=(nan,))) for name in names])

    assert [{name: [3]} for name in names] == changed(live, *(of(name, 3) for name in names))[0]


@pytest.mark.parametrize(
    "wrong",
    [
        of("nowhere", 0),
        of("a", 0, state="other"),
        of("b", 10),
        of("b", -1),
        of("b"),
        of("b", 2, 1),
        of("b", 1, 1),
        of("own", 0, state="some"),
    ],
)
def test_what_is_not_live_is_refused_before_anything_is_written(wrong):
    live = found([entry(file("a")), entry(file("b"))])
    written = Written()
    write = partial(as_delete_files, live=live, write=written)
    with pytest.raises(BugError, match="not live") as caught:
        row_changes([file("own")], live, [of("a", 1), wrong], "lake.orders", write)

    assert ("P707", []) == (caught.value.code, written.files)


def test_a_deleted_row_is_not_deleted_again_nor_a_file_named_twice():
    entries = [entry(file("a")), entry(file("d", DELETES, 1, bounds=["a"]))]
    live = found(entries, d={"a": [4]})
    state = live.delete_state("a")
    for wrong in ([of("a", 4, state=state)], [of("a", 1, state=state), of("a", 2, state=state)]):
        write = partial(as_delete_files, live=live, write=Written())
        with pytest.raises(BugError, match="not live"):
            row_changes([], live, wrong, "lake.orders", write)


def vectors(live, *deletes, own=()):
    """Give the deletes of each vector, what is added, and the names of what is removed."""
    written = {}

    def write(touched):
        written.update({each.file_path: positions.tolist() for each, positions in touched})
        return [vector("new.puffin", each.file_path, at) for at, (each, _) in enumerate(touched)]

    make = partial(as_vectors, live=live, write=write)
    changes = row_changes(own, live, deletes, "lake.orders", make)
    gone = [name_of(each.data_file) for each in changes.removed]
    return written, [name_of(each) for each in changes.files], gone


def test_a_vector_has_what_was_deleted_before_and_takes_the_place_of_the_former():
    entries = [
        entry(file("a")),
        entry(file("b")),
        entry(vector("d", "a")),
        entry(vector("d", "b", 9)),
    ]
    live = found(entries, **{"d@0": {"a": [4]}, "d@9": {"b": [7]}})

    assert ({"a": [1, 4]}, ["new.puffin@0"], ["d@0"]) == vectors(
        live, of("a", 1, state=live.delete_state("a"))
    )


def test_a_vector_takes_over_the_delete_files_of_the_second_format():
    entries = [
        entry(file("a")),
        entry(file("b")),
        entry(file("of-a", DELETES, 1, bounds=["a"])),
        entry(file("of-both", DELETES, 2)),
    ]
    live = found(entries, **{"of-a": {"a": [3]}, "of-both": {"a": [4], "b": [0]}})

    assert ({"a": [1, 3, 4]}, ["new.puffin@0"], ["of-a"]) == vectors(
        live, of("a", 1, state=live.delete_state("a"))
    )


def test_the_vector_of_before_a_file_was_put_back_goes_and_is_not_merged():
    entries = [entry(file("a"), 5), entry(vector("old", "a"), 3)]
    live = found(entries, **{"old@0": {"a": [4]}})

    assert ({"a": [1]}, ["new.puffin@0"], ["old@0"]) == vectors(live, of("a", 1))


def test_a_file_of_which_no_row_is_left_goes_with_its_vector_and_others_keep_theirs():
    entries = [
        entry(file("a", rows=2)),
        entry(file("b")),
        entry(vector("d", "a")),
        entry(vector("d", "b", 9)),
    ]
    live = found(entries, **{"d@0": {"a": [0]}, "d@9": {"b": [7]}})

    assert ({}, [], ["a", "d@0"]) == vectors(live, of("a", 1, state=live.delete_state("a")))
