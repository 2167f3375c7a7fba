"""Stand-bys: a pipeline on several hosts, and whoever is ready goes on where its owner ended."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil
import pytest
import yaml
from tests.integration.cli.shop import Shop, problem
from tests.integration.cli.test_publish import Mirror
from tests.processes.broker import Cluster
from tests.processes.process import Driver
from tests.processes.sigstop import let_locks_go
from tests.servers.warm import WarmProcess

DATABASES = ("lake/catalog.db",)
DIED = (["its owner died"], ["its owner was silent"])
"""What is seen of a killed owner: at once, or after 5 s where the machine is busy."""


@pytest.fixture
def shared(shop: Shop, postgresql) -> Shop:
    """A shop whose pending store is in PostgreSQL."""
    shop.spec["pending"] = {"store": postgresql.address(postgresql.database())}
    return shop


@pytest.fixture
def mirror(cluster: Cluster, tmp_path: Path) -> Mirror:
    """A publication of its own."""
    return Mirror(cluster, tmp_path)


def standing_by(shop: Shop, spec: Path | None = None, *words: str) -> Driver:
    """Start a process that stands by, by the shop's spec or another one."""
    start = partial(WarmProcess, directory=shop.directory)
    return Driver(spec or shop.path, "--standby", *words, start=start)


def changed_spec(shop: Shop) -> Path:
    """Write the shop's spec with other rules."""
    tables = [{**each, "tombstones": "skip"} for each in shop.spec["tables"]]
    path = shop.directory / "changed.yaml"
    path.write_text(yaml.safe_dump({**shop.spec, "tables": tables}, sort_keys=False))
    return path


def ready(driver: Driver, times: int = 1) -> None:
    """Wait until a stand-by said so many times that it is ready to take over from somebody."""
    driver.wait_until(lambda: said(driver).count("") >= times, "it is ready")


def said(driver: Driver) -> list[str]:
    """List what was in the way of taking over from an owner, in turn; "" for nothing."""
    changes = [each.data for each in list(driver.reported) if each.event == "StandbyChanged"]
    return [each["trouble"] for each in changes if each["owner"] or each["trouble"]]


def gained(driver: Driver) -> list[str]:
    return [e.data["reason"] for e in list(driver.reported) if e.event == "LeadershipGained"]


def owner_and_ready(shop: Shop, stack: ExitStack) -> tuple[Driver, Driver]:
    owner = stack.enter_context(standing_by(shop))
    owner.wait_for("TableCommitted", 2)
    other = stack.enter_context(standing_by(shop))
    ready(other)
    return owner, other


def test_a_stand_by_goes_on_where_an_owner_was_killed(shared: Shop) -> None:
    with shared.producing() as sent, ExitStack() as stack:
        owner, other = owner_and_ready(shared, stack)
        again = stack.enter_context(standing_by(shared))
        ready(again)
        owner.kill()
        first, second = (other, again) if gained_by(other, again) is other else (again, other)
        first.wait_for("TableCommitted", 2)
        ready(second, 2)
        assert gained(first) in DIED
        assert [] == gained(second)
        before = sent()
        first.kill()
        second.wait_for("TableCommitted", 2)
        second.wait_until(lambda: len(shared.lake()) > before, "rows that came later")
    assert 0 == shared.run().code
    shared.prove()


def gained_by(*drivers: Driver) -> Driver:
    """Wait until one of several has its turn."""
    drivers[0].wait_until(lambda: any(map(gained, drivers)), "one has gained leadership")
    return next(each for each in drivers if gained(each))


def test_who_is_asked_hands_over_and_stands_by_again(shared: Shop) -> None:
    with shared.producing(), ExitStack() as stack:
        owner, other = owner_and_ready(shared, stack)
        shown = shared.call("members", "--json").json["members"]
        assert [("owner", owner.pid), ("ready", other.pid)] == [
            (each["state"], each["pid"]) for each in shown
        ]
        for former, now in ((owner, other), (other, owner)):
            done = shared.call("handover", "--json")
            assert 0 == done.code, done
            assert (former.pid, now.pid) == (done.json["former"]["pid"], done.json["owner"]["pid"])
            assert "handed over" == gained(now)[-1]
            ready(former, 1 + (former is other))
        owner.wait_for("TableCommitted", 4)
    shared.prove()


def test_who_is_stopped_hands_over_also_to_other_rules(shared: Shop) -> None:
    with shared.producing(), ExitStack() as stack:
        owner = stack.enter_context(standing_by(shared))
        owner.wait_for("TableCommitted", 2)
        other = stack.enter_context(standing_by(shared, changed_spec(shared)))
        ready(other)
        owner.send(signal.SIGTERM)
        assert 0 == owner.end().code
        other.wait_for("TableCommitted", 2)
        assert ["handed over"] == gained(other)


def test_other_rules_do_not_take_over_from_the_dead(shared: Shop) -> None:
    with shared.producing(), ExitStack() as stack:
        owner = stack.enter_context(standing_by(shared))
        owner.wait_for("TableCommitted", 2)
        other = stack.enter_context(standing_by(shared, changed_spec(shared)))
        ready(other)
        owner.kill()
        other.wait_until(lambda: any("P523" in each for each in said(other)), "it refuses")
        assert [] == gained(other)
        same = stack.enter_context(standing_by(shared))
        same.wait_for("TableCommitted", 2)


def test_one_that_was_held_is_followed_and_stands_by_when_it_wakes(shared: Shop) -> None:
    with ExitStack() as stack:
        shared.send(0, 100)
        owner, other = owner_and_ready(shared, stack)
        process = psutil.Process(owner.pid)
        process.suspend()
        assert let_locks_go(process, [shared.directory / name for name in DATABASES])
        shared.send(100, 100)
        other.wait_for("TableCommitted", 2)
        assert ["its owner was silent"] == gained(other)
        process.resume()
        ready(owner)
        other.send(signal.SIGTERM)
        assert 0 == other.end().code
        owner.wait_until(lambda: "handed over" in gained(owner), "its turn comes again")
        shared.send(200, 100)
        owner.wait_for("TableCommitted", 4)
    assert 0 == shared.run().code
    shared.prove()


def test_what_a_stand_by_lacks_is_told_before_it_is_needed(shared: Shop) -> None:
    with shared.producing(), ExitStack() as stack:
        owner = stack.enter_context(standing_by(shared))
        owner.wait_for("TableCommitted", 2)
        broken = shared.directory / "broken.yaml"
        lake = {"type": "rest", "uri": "http://127.0.0.1:1"}
        spec = {**shared.spec, "catalogs": {**shared.spec["catalogs"], "lake": lake}}
        broken.write_text(yaml.safe_dump(spec, sort_keys=False))
        other = stack.enter_context(standing_by(shared, broken))
        other.wait_until(lambda: any("lake" in each for each in said(other)), "it is not ready")
        assert [False, True] == [
            each["trouble"] == "" for each in shared.call("members", "--json").json["members"]
        ][::-1]
        refused = shared.call("handover", "--wait", "5s", "--json")
        assert (75, "P525") == (refused.code, problem(refused)[0])
        assert [] == gained(other)


def test_a_publication_goes_on_where_its_owner_was_killed(mirror: Mirror, postgresql) -> None:
    mirror.spec["pending"] = {"store": postgresql.address(postgresql.database())}
    mirror.send(200)
    with ExitStack() as stack:
        drivers = [stack.enter_context(mirror.driver("--standby"))]
        drivers[0].wait_for("RowsPublished")
        drivers.append(stack.enter_context(mirror.driver("--standby")))
        ready(drivers[1])
        shown = mirror.call("members", "--json").json["members"]
        assert [("owner", drivers[0].pid), ("ready", drivers[1].pid)] == [
            (each["state"], each["pid"]) for each in shown
        ]
        mirror.send(200)
        drivers[0].kill()
        drivers[1].wait_for("RowsPublished")
        drivers.append(stack.enter_context(mirror.driver("--standby")))
        ready(drivers[2])
        assert 0 == mirror.call("handover", "--json").code
        mirror.send(50)
        drivers[2].wait_for("RowsPublished")
        assert gained(drivers[1]) in DIED
        assert ["handed over"] == gained(drivers[2])
    assert 0 == mirror.call("publish", "--until-caught-up").code
    assert mirror.is_exact()


@pytest.mark.parametrize("words", [("run", "--standby"), ("members",), ("handover",)])
def test_a_store_in_a_file_has_no_stand_bys(shop: Shop, words: tuple[str, ...]) -> None:
    command, *options = words
    refused = shop.call(command, *options, "--json")

    assert (2, "P521") == (refused.code, problem(refused)[0])
    assert [] == [*shop.directory.rglob("*.status.json")], "it is its owner's, from the beginning"


@pytest.mark.parametrize("verb", ["run", "publish"])
def test_one_waits_or_takes_over(shared: Shop, mirror: Mirror, verb: str) -> None:
    where = shared if verb == "run" else mirror
    refused = where.call(verb, "--standby", "--takeover", "--json")

    assert 2 == refused.code
    assert "P526" in refused.out


def test_nobody_hands_over_what_nobody_owns(shared: Shop) -> None:
    refused = shared.call("handover", "--json")
    assert (2, "P524") == (refused.code, problem(refused)[0])
    assert [] == shared.call("members", "--json").json["members"]
    assert Path(shared.path).exists()


@pytest.mark.slow
def test_each_shard_has_stand_bys_of_its_own(shared: Shop) -> None:
    shared.spec["shards"] = 2
    with shared.producing() as sent, ExitStack() as stack:
        owners = [
            stack.enter_context(standing_by(shared, None, "--shard", f"{n}")) for n in range(2)
        ]
        for owner in owners:
            owner.wait_for("TableCommitted", 2)
        other = stack.enter_context(standing_by(shared, None, "--shard", "1"))
        ready(other)
        owners[1].kill()
        other.wait_for("TableCommitted", 2)
        assert gained(other) in DIED
        before = sent()
        owners[0].wait_until(lambda: len(shared.lake()) > before, "rows that came later")
    for shard in range(2):
        assert 0 == shared.run("--shard", f"{shard}").code
    assert ([*range(sent())], [*range(sent())]) == shared.ids()


def landing_any(shop: Shop) -> Driver:
    """Start a process that lands whichever shard is free."""
    start = partial(WarmProcess, directory=shop.directory)
    return Driver(shop.path, "--shard", "any", start=start)


def lands(driver: Driver) -> str:
    """Wait until a process lands; return the shard that it took last."""
    taken = len(gained(driver))
    driver.wait_until(lambda: taken or gained(driver), "it has its turn")
    return [e.data["pipeline"] for e in list(driver.reported) if e.event == "LeadershipGained"][-1]


def test_any_process_lands_any_shard(shared: Shop) -> None:
    shared.spec["shards"] = 2
    with shared.producing() as sent, ExitStack() as stack:
        owners = [stack.enter_context(landing_any(shared)) for _ in range(2)]
        for owner in owners:
            owner.wait_for("TableCommitted", 2)
        assert ["shop+0", "shop+1"] == sorted(map(lands, owners))
        other = stack.enter_context(landing_any(shared))
        other.wait_until(lambda: said(other).count("") >= 2, "it stands by for both")
        owners[0].kill()
        other.wait_for("TableCommitted", 2)
        assert lands(other) == lands(owners[0])
        assert gained(other) in DIED
        third = stack.enter_context(landing_any(shared))
        third.wait_until(lambda: said(third).count("") >= 2, "it stands by for both")
        done = shared.call("handover", "--shard", lands(owners[1])[-1], "--json")
        assert (0, third.pid) == (done.code, done.json["owner"]["pid"])
        third.wait_for("TableCommitted", 2)
        owners[1].wait_until(lambda: said(owners[1]).count("") >= 2, "it stands by for both")
        before = sent()
        third.wait_until(lambda: len(shared.lake()) > before, "rows that came later")
        for each in (other, third):
            each.send(signal.SIGTERM)
        assert [0, 0] == [each.end().code for each in (other, third)]
        owners[1].wait_until(lambda: len(gained(owners[1])) > 1, "it lands again")
    for shard in range(2):
        assert 0 == shared.run("--shard", f"{shard}").code
    assert ([*range(sent())], [*range(sent())]) == shared.ids()


@pytest.mark.parametrize(
    ("shards", "words", "code"),
    [(2, (), "P521"), (1, (), "P528"), (2, ("--takeover",), "P526")],
)
def test_any_shard_is_refused_where_nobody_could_stand_by(
    shop: Shop, shards: int, words: tuple[str, ...], code: str
) -> None:
    shop.spec["shards"] = shards
    refused = shop.call("run", "--shard", "any", *words, "--json")

    assert (2, code) == (refused.code, problem(refused)[0])
