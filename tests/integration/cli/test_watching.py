"""`penstock status --watch` looks again and again, until interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import land

from penstock.app.process import SystemClock
from penstock.cli.status import keep_showing
from penstock.spec.load import load


class Impatient:
    """A clock whose second wait is interrupted; something happens during the first."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._turns = [happens]
        self.now_ms, self.monotonic = SystemClock().now_ms, SystemClock().monotonic

    def wait(self, _seconds: float) -> None:
        if not self._turns:
            raise KeyboardInterrupt
        self._turns.pop()()


@pytest.mark.parametrize("as_json", [True, False])
def test_what_lands_meanwhile_is_seen_at_the_next_look(shop: Shop, capsys, as_json: bool) -> None:
    shop.send(0, 70)
    pipeline = load(shop.path)
    with pytest.raises(KeyboardInterrupt):
        keep_showing(pipeline, Impatient(lambda: land(shop)), as_json=as_json)

    out = capsys.readouterr().out
    if not as_json:
        assert "lake.shop.orders" in out
        return
    looks = [json.loads(line) for line in out.splitlines()]
    lags = [look["tables"]["lake.shop.orders"]["lag_records"] for look in looks]
    assert ([70, 0], None) == (lags, looks[0]["stalled"])
