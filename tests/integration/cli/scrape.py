"""What a scrape of metrics shows, and what the page of metrics names."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[3]


def labels_of(text: str) -> dict[str, set[str]]:
    """Name the labels of each series that has a sample."""
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


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


def documented(part: str) -> set[str]:
    """Name all series that the reference lists for `landing` or `publishing`."""
    kinds = dict(re.findall(r"^\| `(penstock_\w+)` \| (\w+)", _listed(part), re.MULTILINE))
    histograms = {name for name, kind in kinds.items() if kind == "histogram"}
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    return (kinds.keys() - histograms) | parts


def labels_documented(part: str) -> dict[str, set[str]]:
    """Name the labels that the reference lists of each series."""
    row = re.compile(r"^\| `(penstock_\w+)` \| \w+ \| ([\w, ]*)\|", re.MULTILINE)
    return {name: {*re.findall(r"\w+", labels)} for name, labels in row.findall(_listed(part))}


def _listed(part: str) -> str:
    text = (ROOT / "docs/reference/metrics.md").read_text()
    return dict(zip(("landing", "publishing"), text.split("## Of publications"), strict=True))[part]


def page(url: str) -> str:
    """Read what an endpoint shows."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()
