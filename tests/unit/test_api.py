"""The Python API's names are there, light to import, and what they say."""

import subprocess
import sys

import pytest

import penstock


def test_the_api_is_listed_and_every_name_resolves():
    own = ["BadRow", "Batch", "OpenPipeline", "OwnSource", "Pipeline", "PositionGoneError", "Table"]
    own += ["__version__", "open", "publish_once", "publisher", "source"]
    assert own == penstock.__all__
    assert all(getattr(penstock, name) is not None for name in penstock.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        penstock.nope  # noqa: B018


def test_importing_penstock_imports_no_heavy_library():
    code = "import penstock, sys; print([m for m in ('pyspark','pyarrow','pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()


def test_a_pipeline_made_in_python_is_opened_as_it_is():
    spec = penstock.Pipeline.model_validate(
        {
            "name": "shop",
            "kafka": {"brokers": "localhost:9092", "topics": ["shop.orders"]},
            "catalogs": {"delta": {"type": "delta", "root": "/tmp/delta"}},
            "tables": [{"from": "shop.orders", "into": "delta.bronze.orders"}],
            "quarantine": {"into": "delta.ops.quarantine"},
        }
    )

    assert spec is penstock.open(spec).spec
