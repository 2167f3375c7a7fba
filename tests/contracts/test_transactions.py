"""The contract of `ports/producers.py`: a real broker, with protocol 2 and without, and memory."""

import random  # noqa: TID251  from the seed that a test names
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec
from kafka import KafkaAdminClient
from kafka.admin import UpdateFeatureType
from kafka.protocol.producer import AddPartitionsToTxnRequest
from tests.processes.broker import Cluster, running_broker, wait_until

from penstock.app.assembly.producers import open_producers, settled
from penstock.connectors.kafka.native.brokers import Brokers
from penstock.connectors.kafka.producers.sender import MessagePacker, ProducerSender
from penstock.connectors.kafka.producers.terms import ProducerTerms
from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.transactions import produce
from penstock.connectors.kafka.transactions.coordinators import Coordinators
from penstock.connectors.kafka.transactions.offsets_topic import OffsetsTopic
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.connectors.memory.cluster import MemoryCluster
from penstock.connectors.memory.transactions import (
    MemoryCoordinator,
    MemoryLedger,
    MemoryProducerTerms,
    MemoryTerms,
)
from penstock.core.errors import InvalidError, UnavailableError
from penstock.dev.broker import Running
from penstock.ports.producers import (
    NO_TRANSACTIONS,
    PROTOCOL_1,
    PROTOCOL_2,
    Ledger,
    Refused,
    Term,
    Terms,
)
from penstock.publishing.settings import Publication
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.producer_transactions import ProducerTransactionsContract
from penstock.testing.contracts.transactions import (
    LONG_MS,
    FormerTransactionsContract,
    TransactionsContract,
    TransactionsFixture,
)

EXPIRING = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}


@pytest.fixture(scope="module")
def expiring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run a broker that ends transactions when their time is over, not ten seconds later."""
    with running_broker(tmp_path_factory.mktemp("expiring"), properties=EXPIRING) as running:
        yield running


class OnABroker(TransactionsFixture):
    level = 2

    @pytest.fixture(autouse=True)
    def find_broker(self, expiring: Running) -> None:
        self.settings = read_settings({"brokers": expiring.bootstrap}, ProcessSecrets())

    def open_terms(self, *, timeout_ms: int) -> Terms:
        return KafkaTerms(self.settings, timeout_ms=timeout_ms)

    def open_ledger(self, topic: str) -> OffsetsTopic:
        self.topic = topic
        return OffsetsTopic(self.settings, topic, now_ms=lambda: int(time.time() * 1000))

    def expire(self, transactional_id: str) -> None:
        terms = KafkaTerms(self.settings, timeout_ms=1)

        def is_aborted() -> bool:
            found = terms.remembered(transactional_id)
            return found is not None and found.state == "CompleteAbort"

        wait_until(is_aborted, "the transaction is over")


class InMemory(TransactionsFixture):
    level = 2

    def setup_method(self) -> None:
        self.coordinator = MemoryCoordinator(MemoryCluster(), level=self.level)

    def open_terms(self, *, timeout_ms: int) -> Terms:
        del timeout_ms  # time does not pass there
        return MemoryTerms(self.coordinator)

    def open_ledger(self, topic: str) -> Ledger:
        return MemoryLedger(self.coordinator, topic)

    def expire(self, transactional_id: str) -> None:
        self.coordinator.expire(transactional_id)


class TestKafka(OnABroker, TransactionsContract):
    pass


class TestMemory(InMemory, TransactionsContract):
    pass


class TestFormerKafka(OnABroker, FormerTransactionsContract):
    """A producer of the former protocol adds its partitions itself, and speaks Produce 11."""

    @pytest.fixture(autouse=True)
    def former(self, expiring: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(produce, "BY_NAME", 11)
        monkeypatch.setattr(produce, "BY_ID", 99)  # which no broker has
        set_level(expiring, 0)
        yield
        set_level(expiring, 2)

    def written(self, ledger: Ledger, name: str, term: Term, value: bytes) -> None:
        request = AddPartitionsToTxnRequest
        topic = request.AddPartitionsToTxnTopic(name=self.topic, partitions=[0])
        asked = Coordinators(Brokers(self.settings), self.settings)
        added = asked.ask(
            name,
            lambda: request(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=term.producer_id,
                v3_and_below_producer_epoch=term.epoch,
                v3_and_below_topics=[topic],
            ),
            3,
            patience_seconds=30,
            error_of=lambda answer: part_of(answer).partition_error_code,
        )
        assert 0 == part_of(added).partition_error_code
        super().written(ledger, name, term, value)


class TestLibrary(OnABroker, ProducerTransactionsContract):
    """Producers of librdkafka, on a cluster with protocol 2, too."""

    def open_terms(self, *, timeout_ms: int) -> Terms:
        return ProducerTerms(
            self.settings, compression="lz4", timeout_ms=timeout_ms, protocol=PROTOCOL_1
        )

    def open_ledger(self, topic: str) -> OffsetsTopic:
        return OffsetsTopic(
            self.settings,
            topic,
            now_ms=lambda: int(time.time() * 1000),
            packer=MessagePacker(),
            sender=ProducerSender(self.settings, patience_seconds=5.0),
        )

    def other_process(self) -> Terms:
        return KafkaTerms(self.settings, timeout_ms=LONG_MS)


class TestLibraryOnFormerKafka(TestLibrary):
    @pytest.fixture(autouse=True)
    def former(self, expiring: Running) -> Iterator[None]:
        set_level(expiring, 0)
        yield
        set_level(expiring, 2)


class TestLibraryInMemory(InMemory, ProducerTransactionsContract):
    def open_terms(self, *, timeout_ms: int) -> Terms:
        del timeout_ms  # time does not pass there
        return MemoryProducerTerms(self.coordinator)

    def other_process(self) -> Terms:
        return MemoryProducerTerms(self.coordinator)


class TestFormerMemory(InMemory, FormerTransactionsContract):
    level = 0


def set_level(broker: Running, level: int) -> None:
    """Finalize a `transaction.version`, and wait until the broker goes by it."""
    settings = read_settings({"brokers": broker.bootstrap}, ProcessSecrets())

    def is_set() -> bool:
        brokers = Brokers(settings)
        found = brokers.any().features.get("transaction.version", 0)
        brokers.forget()
        return found == level

    if not is_set():
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        kind = UpdateFeatureType.UPGRADE if level else UpdateFeatureType.SAFE_DOWNGRADE
        admin.update_features({"transaction.version": (kind, level)})
        admin.close()
        wait_until(is_set, "the feature's level is set")


def part_of(added: Any) -> Any:
    return added.results_by_topic_v3_and_below[0].results_by_partition[0]


class TestOffsetsTopic(OnABroker):
    @pytest.mark.parametrize("policy", ["delete", "compact,delete"])
    def test_a_topic_with_retention_is_refused(self, expiring: Running, policy: str) -> None:
        name = f"kept-{policy.replace(',', '-')}"
        Cluster(expiring.bootstrap).create(name, cleanup_policy=policy)

        with pytest.raises(InvalidError, match="retention") as refused:
            self.open_ledger(name).prepare()

        assert "P800" == refused.value.code

    def test_a_topic_of_several_partitions_is_one_ledger(self, expiring: Running) -> None:
        """As Connect makes it: keys are where Java's hash puts them, batches as large as they are."""
        Cluster(expiring.bootstrap).create("of-connect", 5, cleanup_policy="compact")
        terms, ledger = self.open_terms(timeout_ms=LONG_MS), self.open_ledger("of-connect")
        ledger.prepare()
        entries = {f'["segments",{{"n":{n}}}]'.encode(): b"x" * 150_000 for n in range(30)}
        term = terms.take("of-connect")
        assert ledger.append("of-connect", term, list(entries.items())) is None
        terms.end("of-connect", term)
        terms.take("of-connect")

        assert entries == ledger.look().entries
        assert places_by_librdkafka(expiring, entries) == places(expiring, "of-connect")

    def test_what_was_written_after_partitions_were_added_counts(self, expiring: Running) -> None:
        """A key moves to another partition; what stands in its former one is old."""
        Cluster(expiring.bootstrap).create("grown", 2, cleanup_policy="compact")
        terms, former = self.open_terms(timeout_ms=LONG_MS), self.open_ledger("grown")
        assert {} == former.look().entries
        keys = [f'["grown",{{"n":{n}}}]'.encode() for n in range(30)]
        for written, partitions in ((keys, 2), (keys[::2], 3)):
            if partitions > 2:
                Cluster(expiring.bootstrap).grow("grown", partitions)
            term, ledger = terms.take("grown"), self.open_ledger("grown")
            values = [(key, b"%d" % partitions) for key in written]
            assert ledger.append("grown", term, values) is None
            terms.end("grown", term)
        terms.take("grown")

        wanted = {key: b"3" if key in keys[::2] else b"2" for key in keys}
        assert wanted == self.open_ledger("grown").look().entries
        assert wanted == former.look().entries  # a stand-by's, whose turn comes again

    def test_a_key_whose_partition_was_its_former_one_has_no_former_value(
        self, expiring: Running
    ) -> None:
        """Partitions are added twice: a key may come back to the first one, which had it once."""
        Cluster(expiring.bootstrap).create("grown-twice", 1, cleanup_policy="compact")
        terms = self.open_terms(timeout_ms=LONG_MS)
        keys = [f'["twice",{{"n":{n}}}]'.encode() for n in range(30)]
        for partitions in (1, 2, 3):
            if partitions > 1:
                Cluster(expiring.bootstrap).grow("grown-twice", partitions)
            term, ledger = terms.take("grown-twice"), self.open_ledger("grown-twice")
            found = ledger.look().entries
            assert dict.fromkeys(keys if partitions > 1 else (), b"%d" % (partitions - 1)) == found
            written = [(key, b"%d" % partitions) for key in keys]
            assert ledger.append("grown-twice", term, written) is None
            terms.end("grown-twice", term)
        term = terms.take("grown-twice")
        assert dict.fromkeys(keys, b"3") == ledger.look().entries
        assert ledger.append("grown-twice", term, [(key, None) for key in keys]) is None
        terms.end("grown-twice", term)
        terms.take("grown-twice")

        assert {} == self.open_ledger("grown-twice").look().entries

    def test_a_topic_that_was_created_again_is_neither_written_nor_read(
        self, expiring: Running
    ) -> None:
        """Its entries are another ledger's, whatever they say."""
        terms, ledger = self.open_terms(timeout_ms=LONG_MS), self.open_ledger("again")
        ledger.prepare()
        term = terms.take("again")
        assert ledger.append("again", term, [(b"k", b"1")]) is None
        following = terms.end("again", term)
        assert isinstance(following, Term)
        Cluster(expiring.bootstrap).delete("again")
        other = self.open_ledger("again")
        other.prepare()
        ledger._leaders.patience_seconds = ledger._sender.patience_seconds = 0.2

        assert isinstance(ledger.append("again", following, [(b"k", b"2")]), Refused)
        with pytest.raises(UnavailableError, match="created again"):
            ledger.look()
        ledger.prepare()  # as a start does
        assert {} == ledger.look().entries == other.look().entries

    def test_a_timeout_above_the_brokers_is_refused(self) -> None:
        with pytest.raises(InvalidError) as refused:
            self.open_terms(timeout_ms=16 * 60_000).take("too-patient")

        assert "P283" == refused.value.code


def places(broker: Running, topic: str) -> dict[int, int]:
    """Count the records of a transaction in each of five partitions, without its marker."""
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(5)}
    cluster = Cluster(broker.bootstrap)
    asked = cluster.admin.list_offsets(wanted)
    ends = {at.partition: each.result().offset for at, each in asked.items()}
    return {number: end - 1 for number, end in ends.items() if end}


def places_by_librdkafka(broker: Running, keys: Iterable[bytes]) -> dict[int, int]:
    """Count where a client puts keys that hashes them as Java's do."""
    Cluster(broker.bootstrap).create("of-librdkafka", 5)
    settings = {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"}
    producer, found = Producer(settings), Counter[int]()
    for key in keys:
        producer.produce(
            "of-librdkafka", b"", key, on_delivery=lambda _, at: found.update([at.partition()])
        )
    producer.flush()
    return dict(found)


class Player:
    """Plays acts of several holders of one id; terms are known by the order in which they came."""

    def __init__(self, terms: Terms, ledger: Ledger, name: str) -> None:
        self.terms, self.ledger, self.name = terms, ledger, name
        self.known = [terms.take(name)]

    def act(self, kind: str, which: int, value: bytes) -> str:
        """Do one thing under one of the terms; return what came of it."""
        term = self.known[which % len(self.known)]
        match kind:
            case "take":
                return self._named(self.terms.take(self.name))
            case "renew":
                return self._named(self.terms.renew(self.name, term))
            case "end":
                return self._named(self.terms.end(self.name, term))
            case _:
                return self._named(
                    self.ledger.append(self.name, term, [(self.name.encode(), value)])
                )

    def _named(self, answer: Term | Refused | None) -> str:
        if isinstance(answer, Refused):
            return f"error {answer.error}"
        if answer is None:
            return "written"
        if answer not in self.known:
            self.known.append(answer)
        return f"term {self.known.index(answer)}"


def is_settled(terms: Terms, name: str) -> bool:
    """Whether no marker is on its way: until it is there, a leader takes what the former term sends.

    Such a batch is of the transaction that was ended; memory writes markers at once.
    """
    found = terms.remembered(name)
    return found is None or not found.state.startswith("Prepare")


class TestMemoryAndKafka(OnABroker):
    @pytest.mark.parametrize("seed", range(25))
    def test_any_acts_of_several_holders_have_the_same_answers(self, seed: int) -> None:
        chance, name = random.Random(seed), f"walk-{seed}"
        coordinator = MemoryCoordinator(MemoryCluster())
        terms = self.open_terms(timeout_ms=LONG_MS)
        real = Player(terms, self.open_ledger("walks"), name)
        played = Player(MemoryTerms(coordinator), MemoryLedger(coordinator, "walks"), name)
        real.ledger.prepare()
        played.ledger.prepare()
        acts = []
        for number in range(14):
            kind = chance.choice(["take", "renew", "end", "end", "append", "append", "append"])
            which = -1 - min(chance.randrange(6) // 2, 2)  # mostly the newest term
            act = (kind, which, b"%d" % number)
            acts.append((act, played.act(*act), real.act(*act)))
            wait_until(lambda: is_settled(terms, name), "the markers are written")
        real.act("take", 0, b"")
        played.act("take", 0, b"")

        assert [] == [each for each in acts if each[1] != each[2]]
        ours = (
            real.ledger.look().entries.get(name.encode()),
            played.ledger.look().entries.get(name.encode()),
        )
        assert ours[0] == ours[1]


class TestClientOfACluster(OnABroker):
    """Which client writes, where the spec leaves it to the cluster."""

    @pytest.mark.parametrize(
        ("level", "given", "found"),
        [
            (2, {"client": "auto"}, PROTOCOL_2),
            (0, {"client": "auto"}, PROTOCOL_1),
            (0, {"client": "auto", "exactly_once": "requested"}, PROTOCOL_1),
            (0, {"client": "own", "exactly_once": "requested"}, NO_TRANSACTIONS),
            (2, {"client": "own", "exactly_once": "requested"}, PROTOCOL_2),
        ],
    )
    def test_it_is_the_one_that_the_cluster_allows(
        self, expiring: Running, level: int, given: dict[str, str], found: int
    ) -> None:
        set_level(expiring, level)
        try:
            brokers = {"brokers": expiring.bootstrap, "topics": [], "connector": "kafka"}
            asked = Publication("n", "p", "g", "t", "o", "r", "earliest", {}, {**brokers, **given})
            producers = open_producers(settled(asked))
            producers.terms.check()
            assert found == producers.terms.protocol
            producers.close()
        finally:
            set_level(expiring, 2)
