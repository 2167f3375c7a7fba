"""Make a release: wheel, sources, chart, lock and list of components, the same bytes each time.

    python deploy/dist.py FOLDER TOOLS

TOOLS is an environment with what requirements/ship.lock names; `make dist` makes it. FOLDER then
has

    penstock-VERSION.tar.gz                 the sources
    penstock-VERSION-py3-none-any.whl       built from these sources alone
    penstock-VERSION.lock                   requirements/runtime.lock: versions and hashes
    penstock-VERSION.cdx.json               the same as a list of components (CycloneDX)
    penstock-chart-VERSION.tgz              the Helm chart
    SHA256SUMS                              of all these

Invariant: nothing in them says when, where or by whom they were made.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent
EPOCH = 1_580_601_600
"""2020-02-02: the time that all files in archives have, as hatchling gives it."""


def build(root: Path, folder: Path) -> tuple[Path, Path]:
    """Build the sources, and the wheel from them; return the paths of both."""
    (sources,) = SdistBuilder(str(root)).build(directory=str(folder))
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(sources) as packed:
            packed.extractall(scratch, filter="data")
        (unpacked,) = Path(scratch).iterdir()
        versions = ["standard"]
        (wheel,) = WheelBuilder(str(unpacked)).build(directory=str(folder), versions=versions)
    return Path(sources), Path(wheel)


def components(root: Path, lock: Path, tools: Path, to: Path) -> None:
    """Write what a lock names as a list of components, validated by the schema of CycloneDX."""
    program = [tools / "bin" / "cyclonedx-py", "requirements", lock]
    options = ["--pyproject", root / "pyproject.toml", "--output-reproducible", "--validate"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "SOURCE_DATE_EPOCH": str(EPOCH)}
    subprocess.run([*program, *options, "--output-file", to], env=environment, check=True)


def chart(root: Path, tools: Path, folder: Path, version: str) -> None:
    """Check the chart against the manifest and pack it, by Helm."""
    python = tools / "bin" / "python"
    subprocess.run([python, root / "deploy" / "helm" / "render.py", "--check"], check=True)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "penstock")
        shutil.copytree(root / "deploy" / "helm" / "penstock", copy)
        for path in copy.rglob("*"):
            os.utime(path, (EPOCH, EPOCH))
        pack = "import sys, helm_python; helm_python.package(sys.argv[1], destination=sys.argv[2])"
        subprocess.run([python, "-c", pack, copy, scratch], check=True)
        packed = Path(scratch, f"penstock-{version}.tgz")
        shutil.move(packed, folder / f"penstock-chart-{version}.tgz")


def release(root: Path, folder: Path, tools: Path) -> None:
    """Make all files of a release in an empty folder."""
    version = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    build(root, folder)
    lock = folder / f"penstock-{version}.lock"
    shutil.copyfile(root / "requirements" / "runtime.lock", lock)
    components(root, lock, tools, folder / f"penstock-{version}.cdx.json")
    chart(root, tools, folder, version)
    image = root / "deploy" / "kubernetes" / "Dockerfile"
    subprocess.run([tools / "bin" / "hadolint", image], check=True)
    made = sorted(folder.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made]
    (folder / "SHA256SUMS").write_text("".join(sums), "utf-8")


def main() -> None:
    """Make a release in a folder, in place of what it holds."""
    folder, tools = (Path(word).absolute() for word in sys.argv[1:])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    release(ROOT, folder, tools)
    sys.stdout.write((folder / "SHA256SUMS").read_text("utf-8"))


if __name__ == "__main__":
    main()
