import pytest

from penstock.core.accounting import Tally, total
from penstock.core.errors import BugError

ONE = Tally(6, 3, {"where": 2}, {"P301": 1})
TWO = Tally(4, 2, {"tombstone": 1}, {"P301": 1})


def test_tallies_add_up_by_reason_and_code():
    assert Tally(10, 5, {"tombstone": 1, "where": 2}, {"P301": 2}) == ONE + TWO == total([ONE, TWO])
    assert Tally() == total([])


def test_reasons_stand_in_order_so_that_equal_books_are_equal_text():
    reasons = ["above", "below", "key", "later", "other", "schema", "tombstone", "where"]
    books = total(Tally(1, 0, {reason: 1}, {}) for reason in reversed(reasons))

    assert reasons == [*books.filtered]
    assert (2, 3) == ((ONE + TWO).quarantined_total, (ONE + TWO).filtered_total)


def test_books_that_agree_pass():
    (ONE + TWO).check("lake.orders orders[0]")


@pytest.mark.parametrize("examined", [9, 11])
def test_books_that_do_not_agree_name_the_place_and_all_numbers(examined):
    with pytest.raises(BugError) as found:
        Tally(examined, 5, {"where": 3}, {"P301": 2}).check("lake.orders orders[0]")

    assert "P701" == found.value.code
    assert (
        f"lake.orders orders[0]: {examined} records examined, but 5 landed, 3 filtered and "
        "2 quarantined"
    ) == found.value.message
