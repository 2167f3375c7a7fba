"""A small spec that is right, and ways to make it wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.spec.load import loads
from penstock.spec.model import Pipeline
from penstock.spec.problems import SpecError

BASE = Path("/srv/shop")
SPEC = """\
name: shop
kafka:
  brokers: localhost:9092
  topics: [shop.orders]
catalogs:
  lake: { type: sql, uri: "sqlite:///./lake/catalog.db", warehouse: ./lake }
tables:
  - from: shop.orders
    into: lake.bronze.orders
quarantine: { into: lake.ops.quarantine }
"""

Changed = Callable[..., str]


@pytest.fixture
def spec() -> Changed:
    """Return the small spec with texts replaced: `spec(("from", "to"), …)`."""

    def changed(*replacements: tuple[str, str]) -> str:
        text = SPEC
        for old, new in replacements:
            assert old in text, f"{old!r} is not in the spec"
            text = text.replace(old, new)
        return text

    return changed


@pytest.fixture
def reported() -> Callable[[str | bytes], str]:
    """Load a wrong spec and give what is reported of it."""

    def problems_of(text: str | bytes) -> str:
        with pytest.raises(SpecError) as caught:
            loads(text, base=BASE)
        assert 2 == caught.value.exit_code
        return str(caught.value)

    return problems_of


@pytest.fixture
def codes() -> Callable[[str | bytes], list[tuple[int, str]]]:
    """Load a wrong spec and give line and code of each problem."""

    def list_codes(text: str | bytes) -> list[tuple[int, str]]:
        with pytest.raises(SpecError) as caught:
            loads(text, base=BASE)
        problems = caught.value.problems
        return [(each.place.line if each.place else 0, each.code) for each in problems]

    return list_codes


@pytest.fixture
def pipeline() -> Callable[..., Pipeline]:
    """Build a pipeline in Python; settings replace those of the small spec."""

    def build(**settings: object) -> Pipeline:
        return Pipeline(
            **{
                "name": "shop",
                "kafka": {"brokers": "localhost:9092", "topics": [{"pattern": ".*"}]},
                "catalogs": {
                    "lake": {"type": "sql", "uri": "sqlite:///./lake.db", "warehouse": "./lake"},
                    "delta": {"type": "delta", "root": "./delta"},
                },
                "tables": [{"from": "shop.orders", "into": "lake.bronze.orders"}],
                "quarantine": {"into": "lake.ops.quarantine"},
                **settings,
            }
        )

    return build
