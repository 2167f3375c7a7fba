"""Who sees the page, over real sockets (CO-P2), and how large it is (CO-P1)."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.page.conftest import Serve
from tests.page.looked_at import HOSTILE, Still, hostile, look_at, shop, snapshot, table

from penstock.app.assembly.process import SystemClock
from penstock.core.errors import InvalidError
from penstock.web.serving import Address, address_of, page_served

TOKEN = "correct horse battery staple"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    return file


def ask(
    url: str, path: str = "/shop", method: str = "GET", body: str = "", **headers: str
) -> http.client.HTTPResponse:
    """Ask for a page; `host` and the like are headers."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    return connection.getresponse()


def test_nothing_but_looking_is_possible(serve: Serve) -> None:
    url = serve(Still(shop()))
    statuses = {method: ask(url, method=method).status for method in ("POST", "PUT", "DELETE")}

    assert {"POST": 405, "PUT": 405, "DELETE": 405} == statuses
    assert (405, 200) == (ask(url, "/enter", "POST").status, ask(url, method="HEAD").status)


def test_what_is_no_http_is_refused_without_a_word(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    place = urlsplit(serve(Still(shop())))
    with socket.create_connection((place.hostname, place.port), timeout=10) as client:
        client.sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")
        assert b" 400 " in client.recv(1_000)

    assert [] == caplog.records


def test_a_name_that_was_rebound_to_this_machine_is_refused(serve: Serve) -> None:
    url = serve(Still(shop()))
    port = urlsplit(url).port

    assert 421 == ask(url, host="evil.example").status
    assert 421 == ask(url, host=f"evil.example:{port}", x_forwarded_host="localhost").status
    assert 200 == ask(url, host=f"localhost:{port}").status


def test_behind_a_proxy_its_name_and_a_token_are_asked_for(serve: Serve, token: Path) -> None:
    url = serve(Still(shop()), named=("pipes.example",), token=token)
    given = f"Bearer {TOKEN}"

    assert 303 == ask(url, host="pipes.example").status
    assert 401 == ask(url, "/shop.json", host="pipes.example").status
    assert 401 == ask(url, "/shop.json", host="pipes.example", authorization="Bearer no").status
    assert 200 == ask(url, "/shop.json", host="pipes.example", authorization=given).status
    assert 421 == ask(url, host="other.example", authorization=given).status
    assert 303 == ask(url, "/enterprise", host="pipes.example").status
    assert 401 == ask(url, "/pipelines.json", host="pipes.example").status
    assert 404 == ask(url, "/static/../shop", host="pipes.example").status


def test_the_cookie_of_a_proxied_page_is_for_tls_and_of_that_token_alone(
    serve: Serve, token: Path
) -> None:
    url = serve(Still(shop()), named=("pipes.example",), token=token)
    form = f"token={TOKEN.replace(' ', '+')}"
    here = {"host": "pipes.example", "origin": "https://pipes.example"}
    entered = ask(url, "/enter", "POST", form, **here)
    cookie = entered.headers["set-cookie"]
    kept = cookie.partition(";")[0]

    assert cookie.startswith("__Host-penstock=")
    assert {"HttpOnly", "Path=/", "SameSite=strict", "Secure"} <= {*cookie.split("; ")}
    assert TOKEN not in cookie
    assert 200 == ask(url, host="pipes.example", cookie=kept).status
    beside = f'theme={{"dark": true}}; {kept}'
    assert 200 == ask(url, host="pipes.example", cookie=beside).status, "one of another program"
    assert 303 == ask(url, host="pipes.example", cookie="__Host-penstock=0").status
    assert 303 == ask(url, host="pipes.example", cookie='a="\x01; =').status
    token.write_text("another token, as long")
    other = serve(Still(shop()), named=("pipes.example",), token=token)
    assert 303 == ask(other, host="pipes.example", cookie=kept).status


@pytest.mark.parametrize("origin", ["https://evil.example", "null", ""])
def test_a_form_of_another_page_enters_nothing(serve: Serve, token: Path, origin: str) -> None:
    url = serve(Still(shop()), token=token)
    given = {"origin": origin} if origin else {}

    assert 403 == ask(url, "/enter", "POST", f"token={TOKEN}", **given).status


def test_every_answer_forbids_what_the_page_does_not_need(serve: Serve) -> None:
    url = serve(Still(shop()))
    for path in ("/shop", "/shop.json", "/static/page.css", "/nowhere"):
        headers = ask(url, path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "nosniff" == headers["x-content-type-options"]
        kept = "no-cache" if path.startswith("/static") else "no-store"
        assert kept == headers["cache-control"]
    text = ask(url).read().decode()
    assert " style=" not in text
    assert "<script>" not in text


def test_each_page_has_a_twin_for_programs(serve: Serve) -> None:
    url = serve(Still(shop()), Still(hostile()))
    [first, *_] = json.loads(ask(url, "/pipelines.json").read())["data"]["pipelines"]
    tables = json.loads(ask(url, "/shop/tables.json").read())["data"]["tables"]
    names = json.loads(ask(url, "/hostile/tables.json").read())["data"]["tables"]

    assert ("hostile", "stands") == (first["name"], first["why"]["grade"])
    assert ("lake.bronze.items", "P430") == (tables[0]["name"], tables[0]["code"])
    assert {*HOSTILE} == {each["name"] for each in names}
    assert 404 == ask(url, "/shop/nowhere.json").status


def test_half_of_a_pair_in_a_name_stops_no_page(serve: Serve) -> None:
    url = serve(Still(look_at(snapshot("odd", {"half \ud83d": table(1)}, 0))))

    assert (200, 200) == (ask(url, "/odd").status, ask(url, "/odd/tables.json").status)


def test_a_thousand_tables_are_a_small_page(four: str) -> None:
    answer = ask(four, "/tenants")

    assert (200, None) == (answer.status, answer.headers["content-encoding"])
    assert 150_000 >= len(answer.read())


def test_who_listens_beyond_this_machine_needs_a_token(tmp_path: Path, token: Path) -> None:
    short = tmp_path / "short"
    short.write_text("short")
    seen = tmp_path / "seen"
    seen.write_text(TOKEN)
    seen.chmod(0o644)
    wrong = [
        ("P540", Address("0.0.0.0", 0)),
        ("P540", Address("127.0.0.1", 0, ("pipes.example",))),
        *(("P542", Address("::", 0, (), each)) for each in (short, seen, tmp_path / "no")),
        ("P541", Address("192.0.2.1", 0, (), token)),  # an address of no machine (RFC 5737)
    ]
    for code, address in wrong:
        with pytest.raises(InvalidError) as raised, page_served(address, [], SystemClock()):
            pass
        assert code == raised.value.code


@pytest.mark.parametrize("text", ["here", "127.0.0.1:99999", ":", "127.0.0.1:x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidError) as raised:
        address_of(text)
    assert "P541" == raised.value.code


def test_an_address_is_a_port_alone_or_in_brackets() -> None:
    assert ("127.0.0.1", 8090) == (address_of(":8090").host, address_of("8090").port)
    assert "::1" == address_of("[::1]:8090").host
