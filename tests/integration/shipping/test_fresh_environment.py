"""What is shipped installs into an environment that has nothing: from a file, and from an index.

It takes libraries from uv's cache, as it was filled by `make install`, and no network.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deploy import dist

from penstock.core.version import __version__

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).with_name("uv")
SPEC = """\
name: shop
kafka: { brokers: "127.0.0.1:1", topics: [orders] }
catalogs: { lake: { type: sql, uri: "sqlite:///./lake.db", warehouse: ./lake } }
tables: [ { from: orders, into: lake.shop.orders, schema: { create: true } } ]
quarantine: { into: lake.ops.quarantine }
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dist.build(ROOT, tmp_path_factory.mktemp("dist"))[1]


def installed(folder: Path, *words: str | Path) -> Path:
    """Make an environment with what is asked for, in the versions that are shipped."""
    python = folder / "bin" / "python"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    lock = ROOT / "requirements" / "runtime.lock"
    offline = ("--quiet", "--offline", "--python", python, "--constraint", lock)
    subprocess.run([UV, "pip", "install", *offline, *words], check=True)
    return folder / "bin" / "penstock"


def said(command: Path, *words: str, code: int = 0) -> str:
    """Call the installed command where the clone is out of sight."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(
        [command, *words],
        env=bare,
        cwd=command.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert code == ended.returncode, ended.stderr
    return ended.stdout + ended.stderr


def test_a_file_with_its_extras_has_all_commands(wheel: Path, tmp_path: Path) -> None:
    penstock = installed(tmp_path / "all", f"{wheel}[page,protobuf,spark]")
    (penstock.parents[1] / "penstock.yaml").write_text(SPEC)
    found = json.loads(said(penstock, "doctor", "--json", "--read-only", code=75))

    assert f"penstock {__version__}\n" == said(penstock, "--version")
    assert "is valid" in said(penstock, "validate", "--offline")
    assert "browser" in said(penstock, "ui", "--help")
    assert "penstock[spark]" in said(penstock, "explain", "P297")
    assert {"libraries": "ok", "spark": "ok", "jars": "ok"}.items() <= {
        each["check"]: each["status"] for each in found["checks"]
    }.items()


def test_an_index_gives_it_without_spark_and_it_does_what_needs_none(
    wheel: Path, tmp_path: Path
) -> None:
    page = tmp_path / "simple" / "penstock" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{wheel.as_uri()}">{wheel.name}</a>')
    index = ("--index", f"file://{tmp_path}/simple", "--index-strategy", "unsafe-best-match")
    penstock = installed(tmp_path / "lean", *index, f"penstock=={__version__}")
    home = penstock.parents[1]
    (home / "penstock.yaml").write_text(SPEC)
    (home / "inline.yaml").write_text(f"{SPEC}spark: {{ master: inline }}\n")

    assert [] == [*home.glob("lib/*/site-packages/pyspark")]
    assert "is valid" in said(penstock, "validate", "--offline")
    assert "P297" in said(penstock, "prepare", code=2)
    assert "P297" in said(penstock, "doctor", "--read-only", code=2)
    assert "P297" not in said(penstock, "doctor", "inline.yaml", "--read-only", code=75)
