"""The code in the pages: found by its fences, run as a reader would run it, in a folder of a page.

- `bash` runs in a shell that stops at the first failure; `python` blocks that follow each other run in
  one interpreter, each with names of its own;
- `yaml` that begins with `# NAME.yaml` is a file, put there under its name, and so is `python` that
  begins with `# NAME.py`; other `yaml` is a part of a spec, checked by `fragment`;
- `text` and `console` are what was printed, and are not run;
- a block below `<!-- not run: reason -->` is not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
SHOWN = {"text", "console", "sql"}
RUN = {"bash", "python", "yaml"}
SECONDS_MAX = 280

_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^>]+?) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"# (?P<name>[\w.-]+\.(?P<language>yaml|py))\n")
_SUFFIXES = {"yaml": "yaml", "python": "py"}


@dataclass(frozen=True, slots=True)
class Snippet:
    """One fenced block: where it is, what it is, and why it is not run if it is not."""

    page: str
    line: int
    language: str
    text: str
    reason: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file_name(self) -> str:
        """Name the file that a `yaml` or `python` block is, or nothing."""
        found = _FILE.match(self.text)
        is_file = found and found["language"] == _SUFFIXES.get(self.language)
        return found["name"] if found and is_file else ""


def pages() -> list[str]:
    """List the pages that people write and read, by path."""
    found = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def snippets(page: str) -> list[Snippet]:
    """Find the fenced blocks of a page, in order."""
    text = (ROOT / page).read_text()
    return list(_found(page, text))


def _found(page: str, text: str) -> Iterator[Snippet]:
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        yield Snippet(page, line, found["language"], found["text"], found["reason"] or "")


def run_pages(
    pages: Iterable[str], folder: Path, environment: Mapping[str, str], spec_extra: str
) -> int:
    """Run the blocks of pages in order; give their number. Raises AssertionError where one fails.

    `spec_extra` is put at the end of each spec that a page writes.
    """
    run = [each for page in pages for each in snippets(page) if _is_run(each)]
    for program, group in groupby(
        run, lambda each: each.language == "python" and not each.file_name
    ):
        blocks = list(group)
        if program:
            call([sys.executable, "-c", _in_turn(blocks)], blocks[0], folder, environment)
            continue
        for each in blocks:
            if each.file_name:
                extra = spec_extra if each.language == "yaml" else ""
                (folder / each.file_name).write_text(each.text + extra)
            else:
                call(["bash", "-euo", "pipefail", "-c", each.text], each, folder, environment)
    return len(run)


def _in_turn(blocks: Iterable[Snippet]) -> str:
    """Write a program that runs blocks one after the other, each with names of its own."""
    return "\n".join(
        f"exec(compile({each.text!r}, {each.where!r}, 'exec'), {{}})" for each in blocks
    )


def _is_run(snippet: Snippet) -> bool:
    shown = snippet.language in SHOWN or (snippet.language == "yaml" and not snippet.file_name)
    return not snippet.reason and not shown


def fragment(text: str) -> dict[str, Any]:
    """Put a part of a spec into a whole one, whose other parts are the plainest there are."""
    whole: dict[str, Any] = {
        "name": "shop",
        "kafka": {"brokers": "localhost:9092", "topics": ["orders"]},
        "catalogs": {
            "lake": {"type": "sql", "uri": "sqlite:///./c.db", "warehouse": "./lake"},
            "delta": {"type": "delta", "root": "./delta"},
        },
        "tables": [{"from": "orders", "into": "lake.shop.orders"}],
        "quarantine": {"into": "lake.ops.quarantine"},
    }
    for key, value in yaml.safe_load(text).items():
        old = whole.get(key)
        whole[key] = {**old, **value} if isinstance(old, dict) else value
    return whole


def call(
    command: list[str], snippet: Snippet, folder: Path, environment: Mapping[str, str]
) -> None:
    """Run a command for a block. Raises AssertionError with all it said when it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    message = f"{snippet.where} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert 0 == done.returncode, message
