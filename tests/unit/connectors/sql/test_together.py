"""What waits for a busy store is done in one act, and what fails there is found out alone."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from penstock.connectors.sql.together import Together
from penstock.core.errors import InvalidError


class Acts:
    """Notes each act; the first waits until others have come; an act with a bad item raises."""

    def __init__(self, others: int) -> None:
        self.noted: list[tuple[str, list[int]]] = []
        self.together = Together(self.act)
        self._others, self._began = others, threading.Event()

    def act(self, key: str, items: list[int]) -> None:
        self.noted.append((key, sorted(items)))
        if not self._began.is_set():
            self._began.set()
            while len(self.together._waiting) < self._others:
                threading.Event().wait(0.001)
        if 13 in items:
            raise InvalidError("thirteen", code="P999", hint="")
        if 666 in items:
            raise KeyboardInterrupt

    def run(self, *asked: tuple[str, int]) -> list[Future[None]]:
        """Ask for one item, and for all others while it is being done."""
        with ThreadPoolExecutor(len(asked)) as pool:
            first = pool.submit(self.together.do, *asked[0])
            self._began.wait()
            return [first, *(pool.submit(self.together.do, *each) for each in asked[1:])]


def test_what_is_asked_for_meanwhile_is_one_act():
    acts = Acts(4)
    ended = acts.run(("a", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4))

    assert [("a", [0]), ("a", [1, 2, 3, 4])] == acts.noted
    assert [None] * 5 == [each.result() for each in ended]


def test_keys_do_not_mix():
    acts = Acts(4)
    acts.run(("a", 0), ("a", 1), ("b", 2), ("a", 3), ("b", 4))

    assert [("a", [0]), ("a", [1, 3]), ("b", [2, 4])] == [acts.noted[0], *sorted(acts.noted[1:])]


def test_an_error_is_that_of_the_item_that_has_it():
    acts = Acts(3)
    ended = acts.run(("a", 0), ("a", 1), ("a", 13), ("a", 2))

    with pytest.raises(InvalidError, match="thirteen"):
        ended[2].result()
    assert [None] * 3 == [ended[at].result() for at in (0, 1, 3)]
    assert [("a", [0]), ("a", [1, 2, 13])] == acts.noted[:2]
    assert [[1], [2], [13]] == sorted(items for _, items in acts.noted[2:])


def test_an_act_that_is_broken_off_leaves_the_others_to_act():
    acts = Acts(2)
    acts.run(("a", 0), ("a", 666), ("a", 1))

    assert [("a", [0]), ("a", [1, 666])] == acts.noted[:2]
    assert acts.noted[2:] in ([("a", [1])], [("a", [666])])  # whichever did not act for both
