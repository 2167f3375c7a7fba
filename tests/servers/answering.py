"""Wait until a server that was just started answers."""

from __future__ import annotations

import http.client
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

AGAIN_SECONDS = 0.05
ANSWER_SECONDS_MAX = 5


def wait_until_it_answers(
    asked: Callable[[], object], process: subprocess.Popen[bytes], log: Path, *, seconds_max: float
) -> None:
    """Ask again and again; fail with the end of its log when it died, or took too long."""
    deadline = time.monotonic() + seconds_max
    while True:
        try:
            asked()
        except (OSError, http.client.HTTPException):
            alive = process.poll() is None and time.monotonic() < deadline
            assert alive, f"the server did not start: {log.read_text()[-2000:]}"
            time.sleep(AGAIN_SECONDS)
        else:
            return


def page(url: str) -> Callable[[], object]:
    """Ask for a page; any but an error is an answer."""

    def asked() -> None:
        urllib.request.urlopen(url, timeout=ANSWER_SECONDS_MAX).close()

    return asked
