"""Every verb, next to every trouble of what it needs: the right exit code, the reason, a hint.

The trouble is that of one catalog, which holds one of two tables: commands that ask for all say of
the other as well. No command ends as a bug of ours (P700), and none waits without a bound.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import within
from tests.processes.broker import Cluster
from tests.servers.listening import listening, shut

from penstock.connectors.kafka import errors, log
from penstock.connectors.kafka.native import connection, protocols
from penstock.dev.ports import free_port

TABLE = "lake.shop.orders"
OTHER = "delta.shop.orders"
REFUSAL = (
    b"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s"
)
BODY = b'{"error": {"message": "who are you", "type": "NotAuthorizedException", "code": 401}}'

ASKING = {
    "validate": ["validate", "SPEC"],
    "plan": ["plan", "SPEC"],
    "status": ["status", "SPEC"],
    "audit": ["audit", TABLE, "--spec", "SPEC"],
    "audit --count": ["audit", TABLE, "--count", "--spec", "SPEC"],
    "doctor": ["doctor", "SPEC", "--read-only"],
    "run": ["run", "SPEC", "--until-caught-up"],
    "seek": ["seek", TABLE, "--spec", "SPEC"],
    "replay": ["replay", TABLE, "TOPIC", "--spec", "SPEC"],
    "quarantine retry": ["quarantine", "retry", TABLE, "--spec", "SPEC"],
}
"""Commands that need the catalog which is in trouble."""
WITHOUT = {
    "quarantine list": ["quarantine", "list", "--spec", "SPEC"],
    "quarantine show": ["quarantine", "show", TABLE, "--spec", "SPEC"],
    "quarantine drop": ["quarantine", "drop", TABLE, "--spec", "SPEC"],
}
"""Commands that need the catalog of the quarantine alone, which is another."""
AUDIT = ["audit", "--spec", "SPEC"]
VERB = itemgetter(0)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong: settings of the catalog, the code that is reported, and how a command ends."""

    catalog: dict[str, object]
    code: str
    exit_code: int


def silent(client: socket.socket) -> None:
    """Take all that is sent, and say nothing."""
    while client.recv(4096):
        pass
    client.close()


def refusing(client: socket.socket) -> None:
    """Answer any request with 401."""
    client.recv(65536)
    client.sendall(REFUSAL % (len(BODY), BODY))
    shut(client)


@pytest.fixture
def served() -> Iterator[Callable[[Callable[[socket.socket], object]], str]]:
    """Serve on ports of this machine until the test ends."""
    with ExitStack() as stack:
        yield lambda serve: f"127.0.0.1:{stack.enter_context(listening(0, serve))}"


@pytest.fixture(params=["refusing connections", "silent", "not letting us in", "unset", "no file"])
def trouble(request: pytest.FixtureRequest, served: Callable[..., str]) -> Trouble:
    def rest(address: str) -> dict[str, object]:
        return {"type": "rest", "uri": f"http://{address}", "timeout": "300ms"}

    match request.param:
        case "refusing connections":
            return Trouble(rest(f"127.0.0.1:{free_port()}"), "P430", 75)
        case "silent":
            return Trouble(rest(served(silent)), "P430", 75)
        case "not letting us in":
            return Trouble({**rest(served(refusing)), "token": "${env:PATH}"}, "P431", 2)
        case "unset":
            reported = {"token": "${env:PENSTOCK_IS_NOT_SET}"}
            return Trouble({**rest(served(silent)), **reported}, "P123", 2)
        case _:
            reported = {"token": "${file:/nonexistent/token}"}
            return Trouble({**rest(served(silent)), **reported}, "P123", 2)


@pytest.fixture
def troubled(shop: Shop, trouble: Trouble) -> Shop:
    shop.spec["catalogs"]["lake"] = trouble.catalog
    shop.spec["quarantine"] = {"into": "delta.ops.quarantine"}
    shop.send(0, 3)
    return shop


def called(shop: Shop, words: list[str]) -> tuple[int, str]:
    """Call a command; give its exit code and all it said, on lines as wide as they are."""
    named = {"SPEC": str(shop.path), "TOPIC": shop.topic}
    ended = within(*(named.get(word, word) for word in words))
    return ended.code, re.sub(r"\s+", " ", ended.out + ended.err)


@pytest.mark.parametrize("verb", ASKING)
def test_a_catalog_in_trouble_is_reported_by_every_verb_that_needs_it(
    troubled: Shop, trouble: Trouble, verb: str
) -> None:
    code, reported = called(troubled, ASKING[verb])

    assert trouble.exit_code == code, reported
    assert trouble.code in reported
    assert "→" in reported
    assert "P700" not in reported


@pytest.mark.parametrize("verb", WITHOUT)
def test_a_catalog_in_trouble_is_nothing_to_verbs_that_do_not_need_it(
    troubled: Shop, verb: str
) -> None:
    code, reported = called(troubled, WITHOUT[verb])

    assert (0, False) == (code, "P700" in reported), reported


def test_peek_reports_the_other_tables_or_what_keeps_a_run_from_starting(
    troubled: Shop, trouble: Trouble
) -> None:
    code, reported = called(troubled, ["peek", "TOPIC", "--spec", "SPEC"])

    assert trouble.code in reported
    assert "P700" not in reported
    if trouble.exit_code == 75:
        assert (0, True) == (code, f"{OTHER} (to be created) {{" in reported)
    else:
        assert trouble.exit_code == code


@pytest.mark.parametrize("words", [["validate", "SPEC"], ["status", "SPEC"], AUDIT], ids=VERB)
def test_one_catalog_in_trouble_hides_no_table_of_another(troubled: Shop, words: list[str]) -> None:
    _, reported = called(troubled, words)

    assert TABLE in reported
    assert OTHER in reported


def test_validate_says_what_it_found_before_and_after_a_trouble(
    troubled: Shop, trouble: Trouble
) -> None:
    function = {"call": "nowhere:at_all", "columns": {"id": "long"}}
    troubled.spec["tables"][1]["transform"] = {"function": function}
    troubled.spec["pending"] = {"store": "postgresql://shop@127.0.0.1:1/shop"}

    ended = within("validate", troubled.path, "--json")

    codes = [each["code"] for each in ended.json["problems"]]
    assert 3 == len(codes), codes
    assert {trouble.code, "P512"} < {*codes}
    assert "was not checked: see the problem of lake" == ended.json["tables"][TABLE]
    assert "will be created from the first epoch's records" == ended.json["tables"][OTHER]


@pytest.fixture(params=["refusing connections", "silent"])
def broker_in_trouble(
    request: pytest.FixtureRequest, served: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> str:
    monkeypatch.setattr(errors, "DOWN_SECONDS_MAX", 0.2)
    monkeypatch.setattr(log, "ANSWER_SECONDS_MAX", 1)
    monkeypatch.setattr(protocols, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(connection, "CONNECT_SECONDS_MAX", 0.2)
    refused = request.param == "refusing connections"
    return f"127.0.0.1:{free_port()}" if refused else served(silent)


@pytest.mark.parametrize("verb", [*ASKING, "peek"])
def test_a_broker_in_trouble_is_reported_by_every_verb_that_needs_it(
    tmp_path: Path, broker_in_trouble: str, verb: str
) -> None:
    shop = Shop(tmp_path, Cluster(broker_in_trouble), "shop")

    code, reported = called(shop, ASKING.get(verb, ["peek", "TOPIC", "--spec", "SPEC"]))

    assert 75 == code, reported
    assert "P201" in reported
    assert broker_in_trouble in reported
    assert "→ check kafka.brokers and the network" in reported
    assert "P700" not in reported
