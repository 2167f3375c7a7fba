"""A mapping that keeps what changes is what a dictionary would be, and leaves others alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.iceberg.row_deletes import changing
from penstock.connectors.iceberg.row_deletes.changing import Changing

KEYS = st.integers(0, 6)
ACTS = st.lists(st.tuples(st.sampled_from(["set", "take", "again"]), KEYS), max_size=40)


@pytest.mark.parametrize("most", [0, 2, 100])
@given(acts=ACTS)
def test_it_is_what_a_dictionary_would_be(most: int, acts: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changing, "CHANGES_MAX", most)
        found, truth = Changing[int, int]({1: -1, 2: -2}), {1: -1, 2: -2}
        former: list[tuple[Changing[int, int], dict[int, int]]] = []
        for number, (act, key) in enumerate(acts):
            if act == "set":
                found[key] = truth[key] = number
            elif act == "take" and key in truth:
                del found[key], truth[key]
            elif act == "take":
                with pytest.raises(KeyError):
                    del found[key]
            else:
                former.append((found, dict(truth)))
                found = found.settled().copy()
            assert (truth, len(truth)) == (dict(found), len(found))
            assert all(found.get(each) == truth.get(each) for each in range(7))
        for each, then in former:
            assert then == dict(each)
