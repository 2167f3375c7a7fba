"""Which of several errors a command's exit code is of."""

from __future__ import annotations

from itertools import permutations

from penstock.core.errors import gravest


def test_of_several_codes_the_one_that_waits_for_a_person_is_given() -> None:
    """As the page of exit codes says: 4 before 2 before 75."""
    for codes in permutations((75, 4, 0, 2, 70, 3)):
        assert 4 == gravest(codes)
    assert [2, 3, 70, 75, 0] == [
        gravest(codes) for codes in ((75, 2, 3), (70, 3), (75, 70, 0), (0, 75), ())
    ]
