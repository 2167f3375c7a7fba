"""`penstock ui` as a process: of several specs, whose brokers and stores may be away."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

import yaml
from tests.processes.process import command

SPEC = {
    "kafka": {"brokers": "127.0.0.1:1", "topics": ["orders"]},
    "catalogs": {"delta": {"type": "delta", "root": "./delta"}},
    "tables": [{"from": "orders", "into": "delta.shop.orders"}],
    "quarantine": {"into": "delta.ops.quarantine"},
}


def test_it_serves_several_specs_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    for name in ("shop", "billing"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, **SPEC}))
    words = command("ui", "shop.yaml", "billing.yaml", "--listen", "127.0.0.1:0")
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert found is not None, said
        with urllib.request.urlopen(f"{found[0]}pipelines.json", timeout=10) as answer:
            pipelines = json.load(answer)["data"]["pipelines"]
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)

    assert (0, ["billing", "shop"]) == (code, sorted(each["name"] for each in pipelines))
    assert {("shop", "shop.yaml"), ("billing", "billing.yaml")} == {
        (each["name"], each["spec"]) for each in pipelines
    }
    assert ["billing.yaml", "shop.yaml"] == sorted(each.name for each in tmp_path.iterdir())
