"""Only what is open or hangs, and was named, is aborted."""

import pytest

from penstock.app.assembly import assembly
from penstock.app.repair import abort_transaction
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.transactions import (
    HeldPartition,
    OpenTransaction,
    Scope,
    TransactionState,
)

PLACES = tuple(HeldPartition("orders", number, 0, 1_000) for number in range(5))


def transaction(name, state, producer_id=1, began_ms=None):
    return OpenTransaction(name, state, producer_id, 0, began_ms, None, PLACES)


OPEN = transaction("shop-0", TransactionState.OPEN, 1, began_ms=1_000)
HANGING = transaction("", TransactionState.HANGING, 2)


class Listed:
    def __init__(self, *found):
        self.found, self.aborted = found, []

    def listed(self, scope):
        assert scope is Scope.SPEC
        return self.found

    def abort(self, found):
        self.aborted.append(found)

    def close(self):
        pass


class Named:
    name = "shop"


class At:
    def now_ms(self):
        return 66_000


@pytest.fixture
def there(monkeypatch):
    def listed(*found):
        transactions = Listed(*found)
        monkeypatch.setattr(assembly, "log_settings", lambda _: {})
        monkeypatch.setattr(assembly, "open_transactions", lambda _: transactions)
        return transactions

    return listed


@pytest.mark.parametrize(("name", "chosen"), [("shop-0", OPEN), ("2", HANGING)])
def test_the_one_that_is_named_is_aborted(there, name, chosen):
    transactions = there(OPEN, HANGING)
    abort_transaction.abort(Named(), Scope.SPEC, name)

    assert [chosen] == transactions.aborted


def test_a_plan_says_what_it_costs(there):
    transactions = there(OPEN, HANGING)
    (fencing,) = abort_transaction.abort_plan(Named(), Scope.SPEC, "shop-0", At()).steps
    (marking,) = abort_transaction.abort_plan(Named(), Scope.SPEC, "2", At()).steps

    assert "open for 1m 05s: its producer is fenced" in fencing.text
    assert "5,000 records of orders[0], orders[1], orders[2] and 2 more" in fencing.text
    assert "hanging transaction of producer 2" in marking.text
    assert fencing.destructive
    assert [] == transactions.aborted


def test_what_is_not_there_is_refused_with_what_is(there):
    there(OPEN)
    with pytest.raises(InvalidError, match="shop-0") as refused:
        abort_transaction.abort(Named(), Scope.SPEC, "shop-1")

    assert "P801" == refused.value.code


@pytest.mark.parametrize("state", [TransactionState.ENDING, TransactionState.UNKNOWN])
def test_what_ends_by_itself_or_is_not_seen_clearly_is_left_alone(there, state):
    transactions = there(transaction("shop-0", state))
    with pytest.raises(UnavailableError) as refused:
        abort_transaction.abort(Named(), Scope.SPEC, "shop-0")

    assert "P802" == refused.value.code
    assert [] == transactions.aborted
