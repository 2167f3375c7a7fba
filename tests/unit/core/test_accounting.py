import pytest

from penstock.core.accounting import Tally
from penstock.core.errors import BugError

ONE = Tally(6, 3, {"where": 2}, {"P301": 1})
TWO = Tally(4, 2, {"tombstone": 1}, {"P301": 1})


def test_tallies_add_up_by_reason_and_code():
    assert (
        Tally(10, 5, {"tombstone": 1, "where": 2}, {"P301": 2})
        == ONE + TWO
        == sum([ONE, TWO], Tally())
    )
    assert Tally() == sum([], Tally())


def test_reasons_are_in_order_so_that_equal_books_are_equal_text():
    reasons = ["above", "below", "key", "later", "other", "schema", "tombstone", "where"]
    books = sum((Tally(1, 0, {reason: 1}, {}) for reason in reversed(reasons)), Tally())

    assert reasons == [*books.filtered]
    assert (2, 3) == ((ONE + TWO).quarantined_total, (ONE + TWO).filtered_total)


def test_books_that_agree_pass():
    (ONE + TWO).check("lake.orders orders[0]")


def test_superseded_changes_are_in_the_books():
    landed = Tally(5, 4, {"where": 1})

    assert Tally(5, 1, {"where": 1}, {}, 3) == landed.after_merge(3)
    assert Tally(10, 2, {"where": 2}, {}, 6) == landed.after_merge(3) + landed.after_merge(3)
    landed.after_merge(3).check("lake.orders orders[0]")
    with pytest.raises(BugError) as found:
        Tally(5, 1, {"where": 1}, {}, 2).check("lake.orders orders[0]")
    assert "but 1 landed, 2 superseded, 1 filtered and 0 quarantined" in found.value.message


@pytest.mark.parametrize("examined", [9, 11])
def test_books_that_do_not_agree_name_the_place_and_all_numbers(examined):
    with pytest.raises(BugError) as found:
        Tally(examined, 5, {"where": 3}, {"P301": 2}).check("lake.orders orders[0]")

    assert "P701" == found.value.code
    assert (
        f"lake.orders orders[0]: {examined} records examined, but 5 landed, 3 filtered and "
        "2 quarantined"
    ) == found.value.message
