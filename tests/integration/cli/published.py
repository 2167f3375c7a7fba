"""Publications that stand in a shop's spec, and what topics hold, read with librdkafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, TopicPartition
from tests.integration.cli.shop import Shop
from tests.processes.broker import Cluster
from tests.processes.process import Finished


def committed(
    cluster: Cluster, topic: str, *, partitions: int
) -> dict[int, list[tuple[object, ...]]]:
    """Read the committed records of a topic with librdkafka, which checks checksums."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": topic,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "check.crcs": True,
            "enable.partition.eof": True,
        }
    )
    found: dict[int, list[tuple[object, ...]]] = {n: [] for n in range(partitions)}
    consumer.assign([TopicPartition(topic, number, 0) for number in found])
    ended = set()
    while len(ended) < partitions:
        message = consumer.poll(30)
        assert message is not None, "a partition has an end"
        if message.error():
            ended.add(message.partition())
            continue
        found[message.partition()].append(
            (message.key(), message.value(), message.timestamp(), message.headers())
        )
    consumer.close()
    return found


class PublishedShop:
    """A shop whose spec also publishes, by one rule."""

    def __init__(self, shop: Shop, into: str, rule: dict[str, Any]) -> None:
        self.shop, self.into = shop, into
        shop.spec["publish"] = [{"name": shop.name, "into": into, **rule}]

    def call(self, command: str, *words: str, **environment: str) -> Finished:
        """Run a command of publications."""
        named = ["--spec", self.shop.path] if command in {"publish", "audit"} else [self.shop.path]
        return self.shop.command(command, *named, *words, **environment)

    def publish(self, *words: str, **environment: str) -> Finished:
        """Publish until all that there was at the start is published."""
        return self.call("publish", "--until-caught-up", *words, **environment)

    def read(self, *, partitions: int) -> dict[int, list[tuple[Any, ...]]]:
        """Read the target's committed records."""
        return committed(self.shop.cluster, self.into, partitions=partitions)
