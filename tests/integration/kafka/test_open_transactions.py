"""What an operator does to a transaction that its coordinator has forgotten."""

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec
from tests.processes.broker import Cluster, Running, wait_until

from penstock.testing.sent import Sent


def test_an_open_transaction_is_ended_where_no_producer_ends_it(broker: Running) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create("left-open")
    at = TopicPartition("left-open", 0)

    def end() -> int:
        committed = IsolationLevel.READ_COMMITTED
        asked = cluster.admin.list_offsets({at: OffsetSpec.latest()}, isolation_level=committed)
        return int(asked[at].result().offset)

    cluster.begin("left-open", 0, [Sent(b"1"), Sent(b"2")])
    assert 0 == end()

    assert 1 == cluster.end_open_transactions("left-open", [0])
    wait_until(lambda: end() > 2, "the transaction is over")
    assert 0 == cluster.end_open_transactions("left-open", [0])
