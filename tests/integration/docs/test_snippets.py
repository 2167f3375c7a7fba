"""The commands on the pages do what the pages say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
import yaml
from tests.integration.docs.snippets import (
    RUN,
    SHOWN,
    Snippet,
    call,
    fragment,
    pages,
    run_pages,
    snippets,
)
from tests.processes.broker import running_broker

from penstock.cli import COMMANDS, application
from penstock.spec.load import loads, read_publications

# The pages of a story run in one folder, in order; the second text is added to each spec.
STORIES = {
    "readme": (("README.md",), ""),
    "cases": (("docs/how-to/test-a-spec.md",), ""),
    "debezium": (("docs/tutorial/from-debezium.md",), "spark: { master: inline }\n"),
    "mirror": (("docs/how-to/mirror-a-topic.md",), ""),
    "publish": (("docs/tutorial/table-to-topic.md", "docs/how-to/publish-a-table.md"), ""),
    "own": (("docs/how-to/publish-your-own-source.md",), ""),
    "files": (("docs/how-to/publish-files.md",), ""),
    "sql": (("docs/how-to/publish-sql.md",), ""),
    "news": (("docs/how-to/news.md",), ""),
    "dead letters": (("docs/how-to/rejected-records.md",), ""),
    "frames": (("docs/how-to/publish-dataframes.md",), ""),
    "tutorial": (
        (
            "docs/tutorial/first-pipeline.md",
            "docs/how-to/read-the-tables.md",
            "docs/how-to/keep-tables-healthy.md",
            "docs/how-to/land-in-many-partitions.md",
            "docs/how-to/land-again.md",
        ),
        "spark: { master: inline }\n",
    ),
}
ALL = [each for page in pages() for each in snippets(page)]
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*penstock (?P<words>[^#|&;\n]*)", re.MULTILINE)


def of(*languages: str) -> list:
    return [pytest.param(each, id=each.where) for each in ALL if each.language in languages]


@pytest.fixture(scope="module")
def stories(tmp_path_factory) -> Iterator[dict[str, Future[int]]]:
    """All stories, begun together: each has a folder and a topic of its own.

    The broker is theirs alone: set up once more, they create their topics again.
    """
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        environment = {"BROKERS": broker.bootstrap}
        with ThreadPoolExecutor(len(STORIES)) as pool:
            yield {
                name: pool.submit(
                    run_pages, pages, tmp_path_factory.mktemp(name), environment, extra
                )
                for name, (pages, extra) in STORIES.items()
            }


@pytest.mark.timeout(1800)  # the first one waits for all that its story does
@pytest.mark.parametrize("name", STORIES)
def test_what_a_page_says_to_type_runs(stories, name: str) -> None:
    assert 0 < stories[name].result()


def test_a_block_that_fails_is_found(tmp_path: Path) -> None:
    planted = Snippet("page.md", 1, "bash", "true\nfalse\ntrue\n", "")

    with pytest.raises(AssertionError, match=r"page\.md:1 ended with 1"):
        call(["bash", "-euo", "pipefail", "-c", planted.text], planted, tmp_path, {})


def test_every_block_is_of_a_language_we_know() -> None:
    assert [] == [each.where for each in ALL if each.language not in RUN | SHOWN]


@cache
def told_by(command: str) -> str:
    """Return the help of a command and of those below it."""
    return application(command).generate_docs()


@pytest.mark.parametrize("snippet", of("yaml"))
def test_every_spec_is_valid(snippet: Snippet, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    whole = snippet.text if snippet.file_name else yaml.safe_dump(fragment(snippet.text))

    parts = yaml.safe_load(whole)
    publishes = "tables" not in parts and "publish" in parts
    found = (
        read_publications(whole, base=tmp_path, name=snippet.where).publications
        if publishes
        else loads(whole, base=tmp_path)
    )
    assert found.name


@pytest.mark.parametrize("snippet", of("bash"))
def test_every_command_of_ours_exists_with_its_options(snippet: Snippet) -> None:
    for found in COMMAND.finditer(snippet.text):
        words = found["words"].split()
        assert words[0] in COMMANDS, f"{snippet.where}: penstock {words[0]}"
        options = {word for word in words if word.startswith("--")}
        known = set(re.findall(r"--[a-z-]+", told_by(words[0])))
        assert set() == options - known, snippet.where
