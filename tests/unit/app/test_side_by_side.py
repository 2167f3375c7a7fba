"""Publications side by side: what one waits for, and what it ends with, is its own."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import yaml

from penstock.app.inspect.publication_audit import audit_publications
from penstock.app.inspect.publications import view_publications
from penstock.app.publish import (
    PublishResult,
    claim_named,
    ended_after,
    exit_code,
    publish,
    side_by_side,
)
from penstock.core.errors import InvalidError
from penstock.observe.fanout import UNHEARD
from penstock.spec.load import load_publications

SECONDS_MAX = 30


def ended(name: str) -> PublishResult:
    return PublishResult(name, "caught up", 0, 0, 0, None)


def test_one_that_waits_for_another_gets_there() -> None:
    stop, others_ended = threading.Event(), threading.Event()

    def slow() -> PublishResult:
        assert others_ended.wait(SECONDS_MAX)
        return ended("slow")

    def quick() -> PublishResult:
        others_ended.set()
        return ended("quick")

    assert [ended("slow"), ended("quick")] == side_by_side([slow, quick], stop)
    assert not stop.is_set()


def test_what_is_no_error_of_ours_stops_the_others_in_order_and_is_raised() -> None:
    stop, stopped = threading.Event(), threading.Event()

    def broken() -> PublishResult:
        raise AssertionError("broken")

    def going_on() -> PublishResult:
        assert stop.wait(SECONDS_MAX)
        stopped.set()
        return ended("going on")

    with pytest.raises(AssertionError, match="broken"):
        side_by_side([going_on, broken], stop)
    assert stopped.is_set()


def test_what_cannot_be_opened_is_the_end_of_its_publication_unless_it_may_pass(
    tmp_path: Path,
) -> None:
    spec = {
        "name": "shop",
        "kafka": {"brokers": "localhost:1"},
        "publishing": {"producer": "own"},
        "publish": [{"name": "feed", "from": {"source": f"{__name__}:unopened"}, "into": "rows"}],
        "spark": {"master": "inline"},
    }
    (tmp_path / "publish.yaml").write_text(yaml.safe_dump(spec))
    loaded, stop = load_publications(tmp_path / "publish.yaml"), threading.Event()
    (seen,), (audited,) = view_publications(loaded), audit_publications(loaded)
    (one,) = publish(loaded, [], observer=UNHEARD, stop=stop, until="caught-up")
    stop.set()
    (other,) = publish(loaded, [], observer=UNHEARD, stop=stop, until="stopped")

    assert one.error is not None
    assert other.error is not None
    assert ("P854", "P854") == (one.error.code, other.error.code)
    assert seen.problem is not None
    assert audited.problem is not None
    assert ("P854", "P854") == (seen.problem.code, audited.problem.code)
    assert "the disk is away" in one.reason
    assert "asked to stop" == other.reason
    assert [75, 0] == [exit_code([one]), exit_code([other])]


def test_what_all_turns_published_counts_however_the_last_one_ended() -> None:
    turns = [PublishResult("feed", "asked to stop", 7, 1, 2, None)] * 2

    assert PublishResult("feed", "handed over", 14, 2, 4, None) == ended_after(
        turns, PublishResult("feed", "handed over", 0, 0, 0, None)
    )


def test_a_command_for_one_publication_is_refused_where_there_are_several_and_no_name(
    tmp_path: Path,
) -> None:
    rules = [{"name": each, "from": {"topic": each}, "into": f"{each}.copy"} for each in ("a", "b")]
    spec = {"name": "shop", "kafka": {"brokers": "localhost:1"}, "publish": rules}
    (tmp_path / "publish.yaml").write_text(yaml.safe_dump(spec))
    loaded = load_publications(tmp_path / "publish.yaml")
    with pytest.raises(InvalidError) as caught:
        claim_named(loaded, None)

    assert ("P825", "name one: a or b") == (caught.value.code, caught.value.hint)
    assert "shop/publish/b" == claim_named(loaded, "b")


def unopened() -> None:
    raise OSError("the disk is away")
