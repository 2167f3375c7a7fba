"""Publishing rows, played: whatever goes wrong, each is one message, in the order of its key."""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from tests.story.publishing import ID, INTO, OFFSETS, PARTITIONS, live
from tests.story.publishing_rows import NO_MESSAGE, OF, REJECTS, RULES, RowsWorld, at

from penstock.app.inspect.publication_audit import PublicationAudit, audit_publication
from penstock.app.inspect.publications import view_of
from penstock.app.inspect.row_audit import RowComparison
from penstock.connectors.memory.log import MemoryReader
from penstock.connectors.memory.sending import MemoryPacker
from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.core.publication_events import ColumnTypesChanged, RowsPublished
from penstock.core.receipts import Move, ledger_record_from_json
from penstock.core.resuming import Accepted
from penstock.core.table_errors import missing
from penstock.ports.producers import NewTopic, PackedBatch
from penstock.publishing.messages import SendJob
from penstock.publishing.pace import Rate
from penstock.publishing.publisher import Publisher
from penstock.publishing.settings import Rejects
from penstock.publishing.stops import naming
from penstock.publishing.worker import SendTools
from penstock.rows.encode.rules import MessageRules

KEYS = ["a", "b", "c", None]


@pytest.fixture
def world() -> RowsWorld:
    return RowsWorld()


def totals(world: RowsWorld) -> tuple[int, int]:
    """Return the counts of published and filtered rows, as the ledger has them."""
    (ledger,) = [value for key, value in world.offsets().items() if b'"ledger"' in key]
    found = ledger_record_from_json(ledger).totals
    return found.published, found.filtered


def require_exact(world: RowsWorld) -> None:
    reached = world.reached()
    assert world.expected(reached) == world.found()
    rows = world.table.rows[:reached]
    left_out = sum(value == "left out" for _, value in rows)
    wrong = [number for number, row in enumerate(rows) if row == NO_MESSAGE]
    assert wrong == [row_of_reject(each) for each in world.rejected()]
    assert not reached or (reached - left_out - len(wrong), left_out) == totals(world)


def row_of_reject(reject: dict[str, Any]) -> int:
    """Return the number of the row that a reject says it is."""
    assert isinstance(reject["before"], dict)
    return reject["before"]["row"] - reject["rows"] + reject["row"] - 1


def test_rows_are_messages_tombstones_or_filtered(world):
    world.table.rows = [("a", "1"), ("b", "left out"), ("a", "gone"), (None, "2"), ("b", "3")]
    world.run()

    assert {b"a": [b"1", None], None: [b"2"], b"b": [b"3"]} == world.found()
    assert (4, 1) == totals(world)


def test_a_transaction_of_filtered_rows_alone_moves_the_position(world):
    world.table.rows = [("a", "left out")] * 5
    run = world.run()

    assert ({}, 5, (0, 5)) == (world.found(), world.reached(), totals(world))
    assert 1 == run.transactions


def test_a_key_has_one_partition(world):
    world.table.rows = [(f"k{number % 7}", f"{number}") for number in range(100)]
    world.rows_max = 10
    world.run()

    keys = [
        {
            each.message.key
            for each in world.cluster.partition(INTO, number).entries
            if each.readable
        }
        for number in range(PARTITIONS)
    ]
    assert not keys[0] & keys[1]
    assert all(keys)
    require_exact(world)


@dataclass(slots=True)
class LateFirst(MemoryPacker):
    """Packs what is read first only when what is read behind it was packed."""

    behind: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        MemoryPacker.__init__(self)

    def pack(
        self, rows: pa.RecordBatch, partitions: pa.Int32Array
    ) -> Mapping[int, Sequence[PackedBatch]]:
        """Pack, late or not."""
        if b"first" in rows["value"].to_pylist():
            assert self.behind.wait(60), "another thread packs what is behind"
        found = MemoryPacker.pack(self, rows, partitions)
        self.behind.set()
        return found


@dataclass(slots=True)
class LateWorld(RowsWorld):
    """Its threads are done in another order than they began."""

    def tools(self, job: SendJob) -> SendTools:
        """Return what packs late."""
        return replace(RowsWorld.tools(self, job), packer=LateFirst())


def test_threads_encode_and_what_was_read_first_is_sent_first():
    world = LateWorld()
    world.table.rows = [("a", "first"), ("b", "1"), ("a", "2"), ("a", "3"), ("b", "4")]
    world.run()

    assert {b"a": [b"first", b"2", b"3"], b"b": [b"1", b"4"]} == world.found()
    require_exact(world)


def test_rows_without_keys_are_spread(world):
    world.table.rows = [(None, f"{number}") for number in range(12)]
    world.run()

    assert all(world.published(number) for number in range(PARTITIONS))
    require_exact(world)


@pytest.mark.parametrize("seed", range(30))
def test_any_history_publishes_each_row_once_and_in_the_order_of_its_key(seed):
    chance, world = random.Random(seed), RowsWorld()
    world.rows_max = chance.choice([1, 3, 7, 1000])
    world.table.batch_rows = chance.choice([1, 2, 5])
    if seed % 2:
        world.reject()

    for _ in range(chance.randrange(1, 6)):
        for _ in range(chance.randrange(9)):
            value = chance.choice(["left out", "gone", f"{chance.random()}"])
            key = chance.choice(KEYS if value != "gone" or world.rejects else KEYS[:-1])
            world.table.rows.append((key, value))
        live(world, chance)
        require_exact(world)
    last = world.run()

    assert last.error is None
    assert len(world.table.rows) == world.reached()
    require_exact(world)


def test_a_row_that_is_no_message_stops_the_publication_before_anything_is_sent(world):
    world.table.rows = [("a", "1"), (None, "gone"), (None, "gone")]
    error = world.run().error

    assert isinstance(error, DecisionNeededError)
    assert ("P840", 4) == (error.code, error.exit_code)
    assert "row 2 of the 3 before" in error.message
    assert "1 more" in error.message
    assert {} == world.found()

    world.rules = replace(RULES, where="k is not null")
    assert world.run().error is None
    assert {b"a": [b"1"]} == world.found()


def test_rows_that_are_no_messages_are_in_the_same_transaction(world):
    world.reject()
    world.table.rows = [("a", "1"), NO_MESSAGE, ("b", "left out"), ("a", "2"), NO_MESSAGE]
    run = world.run()

    assert ({b"a": [b"1", b"2"]}, 2, 2, 1) == (
        world.found(),
        run.rows,
        run.rejected,
        run.transactions,
    )
    assert {
        "code": "P373",
        "message": "a row that deletes has no key",
        "column": "k",
        "row": 2,
        "rows": 3,
        "before": {"row": 3},
        "source": {"table": "lake.shop.rows"},
        "transactional.id": ID,
    } == world.rejected()[0]
    assert [1, 4] == [row_of_reject(each) for each in world.rejected()]
    (event,) = [each for each in world.events if isinstance(each, RowsPublished)]
    assert ({"P373": 2}, {"where": 1}) == (event.rejected, event.filtered)
    found = audit(world, run)
    assert ((), 2, 2) == (found.breaks, found.records, found.rejected)
    asked = world.publisher(source={"topics": ["rows"]}).publication
    view = view_of(asked, world.ports(asked))
    assert (None, 2) == (view.problem, view.rejected)


def test_a_reject_has_the_key_of_its_row_where_that_fits(world):
    world.reject()
    world.rules = replace(RULES, bytes_of="", delete_when="cast(v as integer) > 0")
    world.table.rows = [("a", "no condition"), (None, "no condition")]
    world.run()

    entries = world.cluster.partition(REJECTS, 0).entries
    assert [b"a", None] == [each.message.key for each in entries if each.readable]


@pytest.mark.parametrize(
    ("wrong", "share", "code"), [(99, 0.0, None), (100, 0.5, "P860"), (100, 0.7, None)]
)
def test_too_many_rejects_stop_the_publication_before_anything_is_sent(world, wrong, share, code):
    world.reject(share)
    world.table.rows = [NO_MESSAGE] * wrong + [("a", "1")] * 60
    error = world.run().error

    assert code == (error.code if error else None)
    assert (0 if code else wrong) == len(world.rejected())


def test_a_topic_for_rejects_that_is_made_again_is_noticed(world):
    world.reject()
    world.table.rows = [NO_MESSAGE]
    world.run()
    world.make_again(REJECTS)

    assert "P808" == world.run().error.code
    assert world.run(accept=frozenset({Accepted.TARGET})).error is None


def test_an_audit_finds_a_reject_that_is_a_message_now(world):
    world.reject()
    world.table.rows = [NO_MESSAGE, ("a", "1")]
    run = world.run()
    world.table.rows[0] = ("b", "2")

    assert "0 rows are no messages, the receipt says 1" in audit(world, run).breaks[0].message


def test_topics_are_created_together(world):
    world.table.rows = [NO_MESSAGE, ("a", "1")]
    given = {"into": "new", "new_topic": NewTopic(3), "rejects": Rejects("new.rejects", 1.0)}
    source = {"topics": ["rows"]}
    asked = world.publisher(**given, source=source).publication

    assert {"new", "new.rejects"} == {*view_of(asked, world.ports(asked)).creates}
    assert world.run(**given).error is None
    given["rejects"] = Rejects("others", 1.0)
    asked = world.publisher(**given, source=source).publication
    refused, ended = view_of(asked, world.ports(asked)).problem, world.run(**given).error
    assert refused is not None
    assert ("P808", refused.message) == (ended.code, ended.message)
    assert "wrote into new.rejects, which the spec does not name any more" in refused.message
    assert "others" not in world.cluster.names()
    accepted = replace(asked, accept=frozenset({Accepted.TARGET}))
    assert {"others"} == {*view_of(accepted, world.ports(accepted)).creates}


@pytest.mark.parametrize(
    ("rate", "seconds"), [(Rate(rows=10), 5), (Rate(bytes=10_000), 2), (Rate(10, 10**9), 5)]
)
def test_a_rate_cuts_and_delays_transactions(world, rate, seconds):
    """An interval is 5 s; of the first transaction a row is taken for 1,000 bytes."""
    world.table.rows = [("a", f"{number:0100}") for number in range(100)]
    begun = world.clock.monotonic()
    run = world.run(rate=rate)

    require_exact(world)
    assert 2 == run.transactions
    assert seconds <= world.clock.monotonic() - begun < seconds + 2


def test_a_plan_counts_the_transactions_of_a_rate(world):
    world.table.rows = [("a", "1")] * 100
    asked = world.publisher(source={"topics": ["rows"]}, rate=Rate(rows=4)).publication
    found = view_of(asked, world.ports(asked))

    assert (5, "4 records a second") == (found.transactions, found.rate)


def test_a_message_that_its_topic_does_not_take_is_named(world):
    world.table.rows = [("a", "1"), ("b", "left out"), ("a", "x" * 2_000), ("a", "2")]
    world.cluster.topic(INTO).batch_bytes_max = 1_500
    world.table.batch_rows = 1
    error = world.run().error

    assert isinstance(error, DecisionNeededError)
    assert "P841" == error.code
    assert "row 1 of the 1 before" in error.message
    assert {} == world.found()


def test_a_rule_that_does_not_fit_the_table(world):
    world.table.rows = [("a", "1")]
    world.rules = replace(RULES, key=("kk",))
    error = world.run().error

    assert isinstance(error, InvalidError)
    assert ("P838", "did you mean k?") == (error.code, error.hint)

    world.table.rows = []
    into = {"into": "new", "new_topic": NewTopic(3)}
    asked = world.publisher(**into, source={"table": "lake.shop.rows"}).publication
    assert "P838" == view_of(asked, world.ports(asked)).problem.code
    assert "P838" == world.run(**into).error.code
    assert "new" not in world.cluster.names()


def test_columns_that_change_their_types_are_told_once(world):
    publisher = world.publisher("stopped")

    def publish(row: tuple[str, str], kind: pa.DataType) -> list[str]:
        world.table.rows.append(row)
        world.table.columns = lambda: pa.schema([("k", pa.string()), ("v", kind)])
        for _ in range(3):
            world.clock.advance(10)
            publisher.step()
        return [each.changes for each in world.events if isinstance(each, ColumnTypesChanged)]

    assert [] == publish(("a", "1"), pa.string())
    assert ["v: binary, was string"] == publish(("a", "2"), pa.binary())
    assert ["v: binary, was string"] == publish(("a", "3"), pa.binary())
    require_exact(world)


def test_a_table_that_never_was_is_the_spec_s_fault_and_one_that_was_is_waited_for(world):
    def gone() -> None:
        raise missing("lake.shop.rows")

    world.table.rows, columns = [("a", "1")], world.table.columns
    world.table.columns = gone
    asked = world.publisher(source={"topics": ["lake.shop.rows"]}).publication
    never = view_of(asked, world.ports(asked)).problem
    assert ("P898", 2) == (never.code, never.exit_code)
    assert "which orders publishes" in never.message

    world.table.columns = columns
    world.run()
    world.table.columns = gone
    view = view_of(asked, world.ports(asked))
    assert ("P402", 75) == (view.problem.code, view.problem.exit_code)
    of_a_table = replace(asked, source={"table": "lake.shop.rows"})
    assert "from.table" in naming(of_a_table, missing("lake.shop.rows")).hint
    assert "publication orders: the table lake.shop.rows is not there" == view.problem.message
    assert (1, 1) == (view.published, view.epoch), "what stops it hides nothing"


def test_a_topic_that_is_missing_is_created(world):
    world.table.rows = [("a", "1"), ("b", "2")]
    created = {"into": "new", "new_topic": NewTopic(3)}

    assert "P205" == world.run(into="new").error.code
    assert world.run(**created).error is None
    assert world.run(**created).error is None  # it is there now, and stays as it is
    assert 3 == len(world.cluster.topic("new").partitions)


def audit(world: RowsWorld, run: Publisher) -> PublicationAudit:
    reader = MemoryReader(world.cluster, world.clock)
    return audit_publication(run.publication, world.ports(run.publication), (world.table, reader))


@pytest.mark.parametrize("rows_max", [2, 1000])
def test_an_audit_compares_messages_with_rows(world, rows_max):
    world.rows_max = rows_max
    world.table.rows = [("a", "1"), ("b", "left out"), ("a", "gone"), (None, "2"), ("b", "3")]
    found = audit(world, world.run())

    assert ((), (), 5, 4) == (found.breaks, found.not_compared, found.rows, found.records)


@pytest.mark.parametrize(
    ("row", "other", "said"),
    [
        (0, ("a", "other"), "of 1 key are others"),
        (0, ("z", "1"), "of 2 keys are others"),
        (2, ("a", "2"), "of 1 key are others"),
        (3, (None, "9"), "of 1 key are others"),
        (1, ("b", "4"), "0 rows are filtered, the receipt says 1"),
    ],
)
def test_an_audit_finds_rows_that_are_others_than_their_messages(world, row, other, said):
    world.table.rows = [("a", "1"), ("b", "left out"), ("a", "gone"), (None, "2"), ("b", "3")]
    run = world.run()
    world.table.rows[row] = other

    assert said in audit(world, run).breaks[0].message


def test_an_audit_passes_over_what_compaction_takes(world):
    world.rows_max = 2
    world.cluster.topic(INTO).is_compacted = True
    world.table.rows = [("a", "1"), ("b", "2"), ("a", "3"), ("b", "4"), ("a", "5")]
    run = world.run()
    taken = {b"1", b"3", b"4"}
    for partition in world.cluster.topic(INTO).partitions:
        partition.entries = [
            each
            for each in partition.entries
            if not each.message or each.message.value not in taken
        ]
    found = audit(world, run)
    world.cluster.topic(INTO).is_compacted = False
    lost = audit(world, run)
    world.cluster.topic(INTO).is_compacted = True
    world.table.rows[4] = ("a", "6")

    assert ((), 5) == (found.breaks, found.rows)
    assert (f"3 records of {INTO}, from which compaction takes them",) == found.not_compared
    assert lost.breaks
    assert "of 1 key are others" in audit(world, run).breaks[0].message


def test_an_audit_finds_a_ledger_that_is_gone(world):
    assert ("nothing was published yet",) == audit(world, world.publisher()).not_compared
    world.table.rows = [("a", "1")]
    run = world.run()
    world.make_again(OFFSETS)

    assert "P811" == audit(world, run).problem.code


def test_an_audit_says_what_it_cannot_compare(world):
    world.rows_max = 1
    world.table.rows = [("a", "1"), ("b", "2")]
    run = world.run()
    world.table.rows.clear()
    world.table.plan = lambda *_: []
    found = audit(world, run)

    assert ((), 0) == (found.breaks, found.rows)
    (said,) = found.not_compared
    assert said.startswith("2 transactions from 1 to 2: what ")
    assert "can no longer be told" in said
    with pytest.raises(DecisionNeededError) as refused:
        RowComparison(world.table, world.table, RULES).read_again(OF, Move(at(0), at(2)))
    assert "P843" == refused.value.code


def test_an_audit_compares_the_columns_that_the_table_still_has(world):
    world.rules = MessageRules(key=("k",))
    world.table.rows = [("a", "1"), ("b", "2")]
    run = world.run()
    world.table.names = ("k", "w")
    renamed = audit(world, run)
    world.table.rows[1] = ("c", "2")

    assert () == renamed.breaks
    assert (
        "columns that the table or the messages do not have, up to transaction 1: v, w",
    ) == renamed.not_compared
    assert "of 2 keys are others" in audit(world, run).breaks[0].message


def test_an_audit_says_that_keys_have_other_names(world):
    world.rules = MessageRules(key=("k",), key_is_object=True)
    world.table.rows = [("a", "1")]
    run = world.run()
    world.table.names, world.rules = ("w", "v"), MessageRules(key=("w",), key_is_object=True)
    renamed = audit(world, world.publisher())

    assert run.error is None
    assert () == renamed.breaks
    assert "transaction 1: columns of its keys have other names now" in renamed.not_compared


def test_an_audit_compares_no_rows_with_the_rules_of_another_spec(world):
    world.table.rows = [("a", "1"), ("b", "left out")]
    world.run(rules_hash="former")
    world.rules = replace(RULES, where="")
    world.table.rows.append(("b", "left out"))
    found = audit(world, world.run(rules_hash="other"))

    assert ((), 1) == (found.breaks, found.rows)
    assert (
        "transaction 1: the spec had other rules then; audit with that one",
    ) == found.not_compared
