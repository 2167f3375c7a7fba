"""The metrics of a running pipeline; the alerts and the board in deploy/ ask for what is there."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
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


def labels_of(text: str) -> dict[str, set[str]]:
    """Name the labels of each series that has a sample."""
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def asked_for() -> set[str]:
    """Name the metrics that alerts and board use."""
    alerts = [rule["expr"] for rule in rules()]
    assert 5 == len(alerts)
    board = json.loads((ROOT / "deploy/grafana/penstock.json").read_text())
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return {name for expr in [*alerts, *panels] for name in NAME.findall(expr)}


def names_of(text: str) -> set[str]:
    """Name all series that a scrape may show, those without a sample yet included."""
    found = set()
    for family in text_string_to_metric_families(text):
        ends = {
            "counter": ("_total",),
            "histogram": ("_bucket", "_sum", "_count"),
        }.get(family.type, ("",))
        if not family.name.endswith("_created"):  # when a counter began, next to each
            found |= {family.name + end for end in ends}
    return found


def documented() -> set[str]:
    page = (ROOT / "docs/reference/metrics.md").read_text()
    kinds = dict(re.findall(r"^\| `(penstock_\w+)` \| (\w+)", page, re.MULTILINE))
    histograms = {name for name, kind in kinds.items() if kind == "histogram"}
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    return (kinds.keys() - histograms) | parts


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


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

    assert documented() == names_of(text)
    assert set() == asked_for() - names_of(text)
    assert f'penstock_records_read_total{{topic="{shop.topic}"}} 51.0' in text
    found = labels_of(text)
    for rule in rules():
        shown = set().union(*(found[name] for name in NAME.findall(rule["expr"])))
        assert set() == labels_asked_for(rule) - shown, rule["alert"]
