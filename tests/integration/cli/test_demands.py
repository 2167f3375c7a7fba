"""What a table demands of its rows: records are refused by its name, and retried when it is gone."""

from __future__ import annotations

from deltalake import DeltaTable
from tests.integration.cli.shop import Shop

TABLE = "delta.shop.orders"


def test_a_constraint_quarantines_records_until_it_is_dropped(shop: Shop) -> None:
    shop.send(0, 3)
    assert 0 == shop.run().code
    handle = DeltaTable(str(shop.directory / "delta/shop/orders"))
    handle.alter.add_constraint({"small": "id BETWEEN 0 AND 4"})
    shop.send(3, 4)
    plan = shop.call("plan")
    assert "P376" in plan.out, plan
    assert 0 == shop.run().code

    message = "check constraint small: a constraint of the table is false or null for the row"
    refused = {(r["table"], r["code"], r["message"]) for r in shop.rejects()}
    assert {(TABLE, "P376", message)} == refused
    assert (list(range(7)), list(range(5))) == shop.ids()

    retry = ("quarantine", "retry", TABLE, "--yes", "shop")
    assert "P376" in shop.call(*retry).out
    DeltaTable(handle.table_uri).alter.drop_constraint("small")
    assert 0 == shop.call(*retry).code
    assert (list(range(7)), list(range(7))) == shop.ids()
    shop.prove()


def test_an_expression_that_is_not_known_is_refused_with_its_text(shop: Shop) -> None:
    shop.send(0, 1)
    assert 0 == shop.run().code
    handle = DeltaTable(str(shop.directory / "delta/shop/orders"))
    handle.alter.add_constraint({"odd": "id % 2 = 0"})

    checked = shop.call("validate")
    assert "P436" in checked.out + checked.err
    assert "the check constraint odd, id % 2 = 0" in checked.out + checked.err
