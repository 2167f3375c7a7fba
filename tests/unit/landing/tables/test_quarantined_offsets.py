"""What is in quarantine from an earlier reading is given to the lanes it lies in, and then left."""

from penstock.core.offsets import span
from penstock.core.planning import Lane
from penstock.landing.tables.quarantined_offsets import EMPTY
from penstock.testing.prepared import part, positions

TOPIC = part(0).topic_id
HELD = EMPTY | [(TOPIC, 0, 9), (TOPIC, 0, 3), (TOPIC, 1, 3), ("another", 0, 5)] | [(TOPIC, 0, 4)]


def lane(partition, start, stop):
    return Lane(part(partition), span(start, stop), ("lake.a",))


def test_a_lane_gets_those_it_covers_and_no_others():
    assert {(TOPIC, 0, 3), (TOPIC, 0, 4)} == HELD.within([lane(0, 3, 9)])
    assert {(TOPIC, 0, 9), (TOPIC, 1, 3)} == HELD.within([lane(0, 5, 10), lane(1, 0, 9)])
    assert frozenset() == HELD.within([lane(0, 10, 99), lane(2, 0, 99)])


def test_what_was_passed_is_left():
    left = HELD.beyond(positions({0: 4, 1: 4, 2: 9}))

    assert {(TOPIC, 0, 4), (TOPIC, 0, 9), ("another", 0, 5)} == {*left}
    assert [] == [*EMPTY.beyond(positions({0: 4}))]


def test_more_is_taken_along_once():
    again = HELD | [(TOPIC, 0, 9), (TOPIC, 2, 1)]

    assert [*sorted({*HELD, (TOPIC, 2, 1)})] == sorted(again)
