"""What was read is kept up to a weight; what was not asked for longest goes first."""

from penstock.files.kept import Kept


def test_what_was_not_asked_for_longest_goes_first():
    kept = Kept[str](3)
    for name in "abc":
        kept.keep(name, name.upper(), 1)
    assert "A" == kept.get("a")
    kept.keep("d", "D", 1)

    assert [None, "A", "C", "D"] == [kept.get(name) for name in "bacd"]


def test_what_is_heavier_than_all_that_may_be_kept_takes_nothing_away():
    kept = Kept[str](3)
    kept.keep("a", "A", 3)
    kept.keep("b", "B", 4)

    assert ["A", None] == [kept.get(name) for name in "ab"]


def test_a_name_has_one_value_that_counts_once():
    kept = Kept[str](3)
    for _ in range(3):
        kept.keep("a", "A", 2)
    kept.keep("b", "B", 1)

    assert ["A", "B"] == [kept.get(name) for name in "ab"]
