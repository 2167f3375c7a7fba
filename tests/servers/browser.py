"""A real browser without a screen: a Chromium with all that it needs, and axe-core to examine pages.

Both are files in packages of npm's registry, pinned by `browser.lock` and kept in Penstock's cache:
neither npm nor a browser of this machine is needed. `PENSTOCK_CHROMIUM` names another browser, and
`PENSTOCK_NPM_MIRROR` another registry.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import brotli

from penstock.dev.jars import held, home

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LOCK = Path(__file__).with_name("browser.lock")
REGISTRY = "https://registry.npmjs.org"
FETCH_SECONDS_MAX = 300
_SWITCHES = ("--no-sandbox", "--disable-gpu", "--no-zygote", "--disable-dev-shm-usage")
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><dir>/usr/share/fonts</dir><cachedir>{cache}</cachedir></fontconfig>
"""


@dataclass(frozen=True, slots=True)
class BrowserFiles:
    """Where the browser is, where its libraries and fonts are, and the script of axe-core."""

    program: Path
    libraries: Path
    fonts: Path
    axe: Path


@contextmanager
def running() -> Iterator[Browser]:
    """Run a browser that is closed at the end."""
    from playwright.sync_api import sync_playwright

    files = browser_files()
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(files.libraries),
        "FONTCONFIG_FILE": str(files.fonts),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=files.program, env=environment, args=[*_SWITCHES]
        )
        yield browser
        browser.close()


def browser_files() -> BrowserFiles:
    """Fetch and unpack what is not yet here, once for all processes."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    place = home() / f"browser-{digest}"
    if not place.is_dir():
        home().mkdir(parents=True, exist_ok=True)
        with held(home() / "browser.lock"):
            if not place.is_dir():
                with tempfile.TemporaryDirectory(dir=home()) as scratch:
                    whole = Path(scratch, "whole")
                    whole.mkdir()
                    _unpack(whole, place)
                    whole.rename(place)
    chosen = os.environ.get("PENSTOCK_CHROMIUM", "")
    if not chosen:
        assert (sys.platform, platform.machine()) == ("linux", "x86_64"), (
            "the browser of these tests is one for Linux on x86_64: name one of this machine in "
            "PENSTOCK_CHROMIUM"
        )
    program = Path(chosen) if chosen else place / "chromium"
    return BrowserFiles(program, place / "lib", place / "fonts.conf", place / "axe.js")


def _unpack(whole: Path, place: Path) -> None:
    """Unpack both packages; what is written names `place`, where it will be."""
    chromium, axe = (_fetched(line) for line in LOCK.read_text().splitlines())
    with tarfile.open(fileobj=io.BytesIO(axe)) as package:
        (whole / "axe.js").write_bytes(_member(package, "package/axe.min.js"))
    with tarfile.open(fileobj=io.BytesIO(chromium)) as package:
        program = whole / "chromium"
        program.write_bytes(brotli.decompress(_member(package, "package/bin/chromium.br")))
        program.chmod(0o755)
        for name in ("al2023", "fonts", "swiftshader"):
            packed = brotli.decompress(_member(package, f"package/bin/{name}.tar.br"))
            with tarfile.open(fileobj=io.BytesIO(packed)) as inner:
                inner.extractall(whole, filter="data")
    fonts = _FONTS.format(fonts=place / "fonts", cache=place / "fonts-cache")
    (whole / "fonts.conf").write_text(fonts)


def _fetched(line: str) -> bytes:
    """Fetch a package, and check it against its line of the lock."""
    pinned, name = line.split()
    registry = os.environ.get("PENSTOCK_NPM_MIRROR", "").strip() or REGISTRY
    with urllib.request.urlopen(f"{registry}/{name}", timeout=FETCH_SECONDS_MAX) as answer:
        body: bytes = answer.read()
    found = "sha512-" + base64.b64encode(hashlib.sha512(body).digest()).decode()
    assert pinned == found, (
        f"{registry}/{name} is not the file that tests/servers/browser.lock pins"
    )
    return body


def _member(package: tarfile.TarFile, name: str) -> bytes:
    file = package.extractfile(name)
    assert file is not None, f"{name} is not in its package"
    return file.read()
