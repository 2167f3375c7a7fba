"""The notebook in examples/ runs, and gives what its kept outputs say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.integration.docs.notebooks import executed

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "first-look.ipynb"
VARYING = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?(?=\+00:00)")


def outputs(notebook: dict[str, Any]) -> list[str]:
    """List what the cells gave, without what differs from machine to machine."""
    return [
        VARYING.sub("…", json.dumps(cell["outputs"], sort_keys=True))
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def test_the_notebook_runs_and_its_outputs_are_those_kept(broker, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("BROKERS", broker.bootstrap)
    monkeypatch.chdir(tmp_path)
    kept = json.loads(NOTEBOOK.read_text())

    assert outputs(kept) == outputs(executed(kept))
