"""Commands called in this process: what they print and how they end, without starting a Python."""

from __future__ import annotations

import hashlib
import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from tests.integration.cli.shop import Shop
from tests.processes.process import Finished

import penstock
from penstock.cli import main


def within(*words: str | Path) -> Finished:
    """Call a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([*map(str, words)])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return Finished(code, out.getvalue(), err.getvalue())


def land(shop: Shop) -> None:
    """Run a shop's pipeline until caught up, in this process."""
    ended = penstock.open(shop.path).run()
    assert {} == dict(ended.parked)


def planned(shop: Shop, *words: str) -> tuple[int, dict[str, Any]]:
    """Plan, and prove that nothing in the shop's directory was written."""
    shop.path.stat()
    before = fingerprint(shop.directory)
    done = within("plan", shop.path, "--json", *words)
    assert before == fingerprint(shop.directory)
    return done.code, done.json


def fingerprint(directory: Path) -> dict[str, str]:
    """Hash every file below a directory, and name every directory."""
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "directory"
        for path in sorted(directory.rglob("*"))
    }
