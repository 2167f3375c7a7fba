"""Where the status file is: of a store that is a file, and of a database."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from penstock.app.inspect.reported import status_file
from penstock.spec.load import loads

DOCS = Path(__file__).parents[4] / "docs"
DEPLOY = Path(__file__).parents[4] / "deploy"
PLACES = (DOCS / "how-to" / "run-as-a-service.md", DEPLOY / "kubernetes" / "pipeline.yaml")
DOCUMENTED = [
    *(found[1] for each in PLACES for found in re.finditer(r'store: "(.*?)" }', each.read_text())),
    *re.findall(r"postgresql://\S*@db:5432/lake", (DOCS / "how-to" / "catalogs.md").read_text()),
]


def placed(store: str, base: Path) -> Path:
    spec = {
        "name": "shop",
        "kafka": {"brokers": "localhost:9092", "topics": ["orders"]},
        "catalogs": {"delta": {"type": "delta", "root": "./delta"}},
        "tables": [{"from": "orders", "into": "delta.shop.orders"}],
        "quarantine": {"into": "delta.ops.quarantine"},
        "pending": {"store": store},
    }
    return status_file(loads(yaml.safe_dump(spec), base=base))


@pytest.mark.parametrize(
    "store", [*DOCUMENTED, "postgresql://u:pa/ss@h/db", "postgresql://u:p[w@h/db"]
)
def test_with_a_database_it_is_in_the_state_of_the_working_folder(
    store: str, tmp_path: Path
) -> None:
    assert len(DOCUMENTED) > 2
    assert Path("state/shop.status.json") == placed(store, tmp_path)


@pytest.mark.parametrize(
    ("store", "place"),
    [
        ("sqlite:///./state/{name}.db", "state/shop.status.json"),
        ("sqlite:///a [folder]/of-$${it}/{name}.db", "a [folder]/of-${it}/shop.status.json"),
        ("sqlite:////srv/state/b.db", "/srv/state/shop.status.json"),
    ],
)
def test_with_a_store_that_is_a_file_it_is_in_its_folder(
    store: str, place: str, tmp_path: Path
) -> None:
    assert tmp_path / place == placed(store, tmp_path)
