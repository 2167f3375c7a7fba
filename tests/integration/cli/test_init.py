"""`penstock init` looks at a real cluster, and what it writes lands what is there."""

from __future__ import annotations

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import within

from penstock.app import drafting
from penstock.app.peek import Spot, peek
from penstock.spec.load import load
from penstock.testing.sent import Sent


@pytest.mark.parametrize("to", ["iceberg", "delta"])
def test_a_spec_is_written_for_the_topics_there_are(shop: Shop, to: str) -> None:
    shop.send(0, 30)
    binary = f"{shop.name}-binary.2"
    shop.cluster.create(binary)
    shop.cluster.send(binary, 0, [Sent(b"\x00\x01")])
    path = shop.directory / "new.yaml"
    words = ("init", path, "--from", f"kafka://{shop.cluster.bootstrap}", "--to", to, "--json")

    done = within(*words)
    assert (0, True) == (done.code, done.json["valid"]), done
    unfit = {each["topic"]: each["unfit"] for each in done.json["topics"]}
    assert ("", "its records are no JSON objects") == (unfit[shop.topic], unfit[binary])
    text = path.read_text()
    assert f'# - {{ from: "{binary}"' in text
    pipeline = load(path)
    (found,) = peek(pipeline, shop.topic, count=1, at=Spot(shop.topic, 0, 7))
    assert [{"id": 7}, "row"] == [found.decoded, found.fates[0].outcome]

    again = within(*words)
    assert (2, "P164") == (again.code, again.json["error"]["code"])
    assert text == path.read_text()


def test_topics_beyond_the_limit_are_counted_and_progress_is_told(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        shop.cluster.create(f"a-{shop.name}-{number}")
    monkeypatch.setattr(drafting, "TOPICS_MAX", 10)
    seen: list[tuple[int, int]] = []
    text, looked = drafting.draft(
        f"kafka://{shop.cluster.bootstrap}", "delta", "shop", lambda *at: seen.append(at)
    )

    assert [(n + 1, 10) for n in range(10)] == seen
    assert ["no record to look at"] * 10 == [each.unfit for each in looked.topics]
    assert 3 <= looked.left
    assert f"# {looked.left} more topics were not looked at" in text
    spec = shop.directory / "limited.yaml"
    spec.write_text(text)
    assert load(spec).tables


@pytest.mark.parametrize("words", [(), ("--from", "localhost:9092")])
def test_init_without_a_source_says_how(tmp_path, words: tuple[str, ...]) -> None:
    done = within("init", tmp_path / "new.yaml", *words, "--json")

    assert (2, "P166") == (done.code, done.json["error"]["code"])
    assert "kafka://" in done.json["error"]["hint"]
