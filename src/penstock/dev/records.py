"""Topics and records to try things out with: made and sent, each delivery confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.core.errors import UnavailableError

PATIENCE_SECONDS = 30


def create_topics(brokers: str, topics: Mapping[str, int]) -> None:
    """Create topics with so many partitions each. Raises UnavailableError."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": brokers, "log_level": 0})
    wanted = [NewTopic(name, partitions, 1) for name, partitions in topics.items()]
    for name, future in admin.create_topics(wanted).items():
        try:
            future.result(PATIENCE_SECONDS)
        except KafkaException as error:
            raise UnavailableError(
                f"topic {name} could not be created: {error.args[0].str()}",
                code="P642",
                hint="see the broker's log:  penstock dev status",
            ) from error


def produce(
    brokers: str, topic: str, batches: Iterable[list[bytes]], partitions: int
) -> Iterator[int]:
    """Send values to the partitions in turn; yield how many were delivered after each batch, or
    raise UnavailableError.
    """
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
            "log_level": 0,
        }
    )
    failed: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(str(error))

    sent = 0
    for batch in batches:
        for value in batch:
            producer.produce(topic, value, partition=sent % partitions, on_delivery=delivered)
            sent += 1
        if producer.flush(PATIENCE_SECONDS) or failed:
            raise UnavailableError(
                f"{topic}: not every record was delivered: {', '.join(failed[:1]) or 'no answer'}",
                code="P643",
                hint="see the broker's log:  penstock dev status",
            )
        yield sent
