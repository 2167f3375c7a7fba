"""The metrics of a running pipeline; the alerts and the board in deploy/ ask for what is there."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import yaml
from tests.integration.cli.scrape import documented, labels_documented, labels_of, names_of, page
from tests.integration.cli.shop import Shop

from penstock.testing.sent import Sent

ROOT = Path(__file__).resolve().parents[3]
LANDED = re.compile(r'penstock_rows_landed_total\{operation="append",table="(.+)"\} 50')
NAME = re.compile(r"penstock_[a-z_]+")


def rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    read = yaml.safe_load((ROOT / "deploy/prometheus/penstock.rules.yml").read_text())
    return [rule for group in read["groups"] for rule in group["rules"]]


def labels_asked_for(rule: dict[str, Any]) -> set[str]:
    """Name the labels that a rule selects, groups by, or says; those of a scrape are not ours."""
    text = f"{rule['expr']} {rule['annotations']}"
    grouped = ", ".join(re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", text))
    named = set(re.findall(r"\w+", grouped)) | set(re.findall(r"(\w+)=\"", rule["expr"]))
    return (named | set(re.findall(r"\$labels\.(\w+)", text))) - {"instance", "job"}


def asked_for() -> set[str]:
    """Name the metrics that alerts and board use."""
    alerts = [rule["expr"] for rule in rules()]
    assert 7 == len(alerts)
    board = json.loads((ROOT / "deploy/grafana/penstock.json").read_text())
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return {name for expr in [*alerts, *panels] for name in NAME.findall(expr)}


def test_a_pipeline_that_is_down_is_a_target_of_the_documented_job_that_does_not_answer() -> None:
    """Its own metrics end with it, and those of another pipeline must not hide that."""
    guide = (ROOT / "docs/how-to/watch-a-pipeline.md").read_text()
    (scraped,) = re.findall(r"^```text\n(scrape_configs:.*?)```", guide, re.MULTILINE | re.DOTALL)
    (job,) = (each["job_name"] for each in yaml.safe_load(scraped)["scrape_configs"])
    (down,) = (rule["expr"] for rule in rules() if rule["alert"] == "PenstockDown")

    targets = f'up{{job="{job}"}}'
    assert f"{targets} == 0 or absent({targets})" == down


def test_the_endpoint_shows_what_alerts_board_and_page_name(shop: Shop) -> None:
    shop.send(0, 50)
    shop.cluster.send(shop.topic, 0, [Sent(b"no json")])
    with shop.driver("--metrics", "127.0.0.1:0") as driver:
        driver.wait_for("TableCommitted", 4)  # both tables, and the quarantine for each
        url = driver.wait_for("MetricsServed").data["url"]
        both = [
            "delta.shop.orders",
            "lake.shop.orders",
        ]  # lines are reported before they are counted
        driver.wait_until(lambda: both == sorted(LANDED.findall(page(url))), "both are counted")
        text = page(url)
        driver.send(signal.SIGTERM)
        assert 0 == driver.end().code

    assert documented("landing") == names_of(text)
    assert set() == asked_for() - names_of(text)
    assert f'penstock_records_read_total{{topic="{shop.topic}"}} 51.0' in text
    found = labels_documented("landing") | labels_of(text)
    for rule in rules():
        shown = set().union(*(found[name] for name in NAME.findall(rule["expr"])))
        assert set() == labels_asked_for(rule) - shown, rule["alert"]
